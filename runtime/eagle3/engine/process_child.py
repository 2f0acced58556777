"""A child process on a leash: its output, its end, and no trace of it afterwards.

Knows nothing of what the process does. Invariant: the process and all it started are gone when `wait_exit` or
`stop` returns, and soon after this process dies, however it dies (see `leash`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

_LEASH = Path(__file__).with_name("leash.py")
_TAIL_LINES = 60
_LINE_LIMIT = 64 * 1024
_GROUP_END_S = 2.0
_LOUD = re.compile(r"\b(WARNING|ERROR|CRITICAL|FATAL)\b|Error\b|Traceback")

_log = logging.getLogger(__name__)


class ProcessChild:
    """One run of a command. Made by `ProcessChild.launch`."""

    def __init__(
        self, process: asyncio.subprocess.Process, output: asyncio.StreamReader, name: str, kill_after_s: float
    ) -> None:
        self._process = process
        self._output = output
        self._name = name
        self._kill_after_s = kill_after_s
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        """The last lines of its output."""
        self._end = asyncio.create_task(self._watch(), name=f"{name} output")

    @classmethod
    async def launch(
        cls, command: Sequence[str], *, name: str, environment: Mapping[str, str], kill_after_s: float = 10.0
    ) -> ProcessChild:
        """Start `command`; `environment` adds variables that are not set, `name` stands before its log lines.

        `kill_after_s` is how long `stop` waits between SIGTERM and SIGKILL.
        """
        settings = [f"{key}={value}" for key, value in environment.items()]
        # Not asyncio's own pipe: its `wait` returns only when nobody holds that any more, and grandchildren may.
        reading, writing = os.pipe()
        output = asyncio.StreamReader(limit=_LINE_LIMIT)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), os.fdopen(reading, "rb", buffering=0)
        )
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(_LEASH),
                *settings,
                "--",
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        finally:
            os.close(writing)
        return cls(process, output, name, kill_after_s)

    @property
    def pid(self) -> int:
        """Of the leash, which leads the process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 plus the signal's number when a signal ended it."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    async def wait_exit(self) -> str:
        """Return why it ended, with the last word of its output."""
        await asyncio.shield(self._end)
        code = self.exit_code
        assert code is not None, "the process has ended"
        return _reason(code, self.tail)

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL to the whole group. Does nothing when it has ended."""
        if self._process.returncode is None:
            self._terminate()
            try:
                await asyncio.wait_for(self._process.wait(), self._kill_after_s)
            except TimeoutError:
                _log.warning("%s did not stop within %g s; it is killed", self._name, self._kill_after_s)
            self._kill_group()
        await asyncio.shield(self._end)

    async def _watch(self) -> None:
        """Read the output until the process ends; then end what is left of its group."""
        reading = asyncio.create_task(self._read())
        await self._process.wait()
        # What holds the GPU may be a grandchild: the next run must find it gone. Zombies that nobody reaps are no harm.
        deadline = asyncio.get_running_loop().time() + _GROUP_END_S
        while self._kill_group() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        await reading

    async def _read(self) -> None:
        while True:
            try:
                line = await self._output.readline()
            except ValueError:  # longer than the limit: readline has dropped what it held
                continue
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self.tail.append(text)
                _log.log(logging.WARNING if _LOUD.search(text) else logging.DEBUG, "%s: %s", self._name, text)

    def _terminate(self) -> None:
        # Not `send_signal`: it takes the exit code of a process that has just ended away from asyncio.
        try:
            os.kill(self._process.pid, signal.SIGTERM)
        except ProcessLookupError:
            return

    def _kill_group(self) -> bool:
        """Whether anybody was left."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


def _reason(code: int, tail: Sequence[str]) -> str:
    known = {
        128 + signal.SIGKILL: " (killed)",
        128 + signal.SIGTERM: " (terminated)",
        128 + signal.SIGSEGV: " (crashed)",
    }
    errors = [line for line in tail if re.search(r"(Error|error:|Exception)\b", line)] or list(tail)
    said = f"; it said: {errors[-1][:500]}" if errors and code != 0 else ""
    return f"exit code {code}{known.get(code, '')}{said}"

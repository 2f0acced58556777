"""Commands as child processes: their output goes to a log and, line by line, to whoever listens.

Knows nothing of what it runs. Invariant: when `run` ends, however it ends, the command and everything it started in
its session is gone.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from infra.rehearsal.failure import RehearsalError

_GRACE_S = 5.0
_CHUNK = 65536


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A command that ended by itself."""

    exit_code: int
    lines: list[str]
    """stdout and stderr together, in the order in which they came."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Commands:
    """Runs the commands of one rehearsal, one at a time."""

    log: TextIO
    """Takes every command with its output."""
    deadline_s: float
    """On the clock of `time.monotonic`: a command that still runs then is stopped, which is an error."""
    on_wait: Callable[[], None] = lambda: None
    """Called about twice a second while a command says nothing."""

    def run(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        on_line: Callable[[str], None] = lambda line: None,
        patience: Callable[[list[str]], float | None] = lambda lines: None,
        log_output: bool = True,
    ) -> Finished:
        """Run to the end; RehearsalError when time is up.

        `patience` gets the lines so far and says how many seconds after its start the command must have ended; None
        for the deadline of the rehearsal. `log_output` is for output that is data.
        """
        self.log.write(f"\n$ {' '.join(argv)}\n")
        self.log.flush()
        start_s = time.monotonic()
        process = subprocess.Popen(  # noqa: S603, commands that the driver made
            argv,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        lines: list[str] = []

        def left_s() -> float:
            until_s = self.deadline_s
            if (more_s := patience(lines)) is not None:
                until_s = min(until_s, start_s + more_s)
            return until_s - time.monotonic()

        try:
            for line in _lines(process, left_s, self.on_wait):
                if log_output:
                    self.log.write(line + "\n")
                    self.log.flush()
                lines.append(line)
                on_line(line)
            process.wait(max(0.1, left_s()))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            took_s = time.monotonic() - start_s
            self.log.write(f"(stopped after {took_s:.0f} s)\n")
            raise RehearsalError(f"{Path(argv[0]).name} {argv[1]} had not ended after {took_s:.0f} s") from error
        finally:
            stop(process)
        self.log.write(f"(exit code {process.returncode}, {time.monotonic() - start_s:.1f} s)\n")
        return Finished(exit_code=process.returncode, lines=lines)


def _lines(process: subprocess.Popen[bytes], left_s: Callable[[], float], on_wait: Callable[[], None]) -> Iterator[str]:
    """Lines of a command until it closes its output or ends; TimeoutError when no time is left."""
    assert process.stdout is not None, "the output is a pipe"
    rest = b""
    with selectors.DefaultSelector() as selector, process.stdout as pipe:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if (wait_s := left_s()) <= 0:
                raise TimeoutError
            if not selector.select(min(wait_s, 0.5)):
                if process.poll() is not None:
                    break  # it left something behind that keeps the pipe open
                on_wait()
                continue
            chunk = os.read(pipe.fileno(), _CHUNK)
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in whole)
            if not chunk:
                break
    if rest:
        yield rest.decode("utf-8", "replace")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a command that was started in a session of its own, with everything in it: asked first, then killed."""
    try:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
    finally:  # also when whoever waits is interrupted once more
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return  # all of it is gone already

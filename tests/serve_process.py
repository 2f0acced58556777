"""`eagle3 serve` as a process, for tests that talk to a real one."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

# Loading takes ten seconds; a machine that runs other tests beside it may need many times that.
START_S = 200.0


class ServeProcess:
    """One `eagle3 serve`, its address and what it has written so far."""

    def __init__(self, arguments: list[str], *, log: Path | None = None, port: int = 0) -> None:
        self.lines: list[str] = []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EAGLE3_")}
        command = [sys.executable, "-m", "eagle3.cli.main", "serve", "--port", str(port), *arguments]
        with contextlib.ExitStack() as files:
            target: Any = subprocess.PIPE if log is None else files.enter_context(log.open("ab"))
            self.process = subprocess.Popen(command, stderr=target, stdout=subprocess.DEVNULL, env=environment)
        self.url = f"http://127.0.0.1:{port}"
        if log is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
            self.url = self.wait_line(r"address +(http://\S+)")

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            self.lines.extend(line.decode() for line in stderr)  # one by one, as they come

    def wait_line(self, pattern: str) -> str:
        """The first group of the first line that matches."""
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found[1]
            assert self.process.poll() is None, "".join(self.lines)
            time.sleep(0.05)
        raise AssertionError(f"no line {pattern!r} in {''.join(self.lines)}")

    def wait_ready(self) -> None:
        """Until /ready says so."""
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/ready").status_code == 200:
                    return
            assert self.process.poll() is None, "".join(self.lines)
            time.sleep(0.1)
        raise AssertionError("".join(self.lines))


@contextlib.contextmanager
def serving(*arguments: str, **options: Any) -> Iterator[ServeProcess]:
    """A server that is not left behind."""
    server = ServeProcess(list(arguments), **options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()

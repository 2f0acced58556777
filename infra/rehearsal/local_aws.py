"""The local AWS of one rehearsal, as its driver sees it: an address, and what it holds.

Knows nothing of Terraform. Invariant: the process is gone when the context ends, however it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TextIO

from infra.rehearsal.failure import RehearsalError
from infra.rehearsal.process import stop


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Item:
    """One resource that the local AWS holds."""

    service: str
    """Such as "sqs"."""
    region: str
    """"aws" for global services."""
    type: str
    """The local AWS's own word, such as "Queue"."""
    key: str
    """Where it is kept; the same as long as it exists."""
    name: str
    """ARN, name or id."""

    def __str__(self) -> str:
        return f"{self.service} {self.type} {self.name}"


class LocalAws(Protocol):
    """What the driver asks of a local AWS."""

    @property
    def url(self) -> str:
        """Such as "http://127.0.0.1:41234"."""

    def inventory(self, regions: Sequence[str]) -> frozenset[Item]:
        """What it holds in these regions and globally."""


class MotoProcess:
    """`moto` in a process of its own. It takes seconds to start; only the first question waits for that."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @cached_property
    def url(self) -> str:
        """Where it listens."""
        return str(self._answer()["url"])

    def inventory(self, regions: Sequence[str]) -> frozenset[Item]:
        """What it holds."""
        assert self.url, "it listens before it is asked"
        assert self._process.stdin is not None, "stdin is a pipe"
        try:
            self._process.stdin.write(json.dumps(list(regions)).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        return frozenset(Item(**item) for item in self._answer())

    def _answer(self) -> Any:
        assert self._process.stdout is not None, "stdout is a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return json.loads(line)

    def _ended(self) -> RehearsalError:
        return RehearsalError("the local AWS ended; its output is in the log")


@contextmanager
def local_aws(log: TextIO, project: Path) -> Iterator[MotoProcess]:
    """A local AWS on a free port, already starting; its log goes to `log`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "infra.rehearsal.local_aws_server"],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield MotoProcess(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        stop(process)
        process.stdout.close()
        with suppress(BrokenPipeError):  # it ended before it read the last question
            process.stdin.close()

"""The record of a rehearsal: what the local AWS really made, and what is only kept in the state, and why.

Knows nothing of Terraform. One JSON object a line is appended to a file; several processes of the provider may write to
it. Invariant: every change that the provider made has exactly one line.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

REPORT = "EAGLE3KIT_STANDIN_REPORT"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One change."""

    type: str
    """Terraform type, such as "aws_kms_key"."""
    id: str
    action: Literal["create", "update", "delete", "gone"]
    """"gone": a read found that the local AWS no longer has it."""
    where: Literal["aws", "state"]
    """"aws": done in the local AWS. "state": only in the Terraform state."""
    reason: str = ""
    """Why it is in the state only."""


class Report:
    """Appends entries to a file, or to nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def add(self, entry: Entry) -> None:
        """Append one line; a single write, so that lines of several processes do not mix."""
        if self._path is None:
            return
        line = json.dumps(asdict(entry)) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def read_report(path: Path) -> list[Entry]:
    """The entries of a file, in order; none if there is no file."""
    if not path.exists():
        return []
    return [Entry(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]

"""What went wrong, out of the output of Terraform and of the cdktf command line.

Knows the text of their messages and runs nothing. Invariant: the first error is the one reported; what follows it is
mostly its consequence, and stays in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from eagle3.errors import Eagle3Error

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BOX = re.compile(r"^[╷╵│|]\s?")
_ERROR = re.compile(r"^\s*(?:\[.*?\]\s*)?Error: (?P<text>.*)$")
_WITH = re.compile(r"^\s*with (?P<address>\S+?)(?:,| \()")
# Where in the JSON it is: nobody reads the synthesized file.
_SOURCE = re.compile(r"^\s*(on \S+\.json line \d+|\d+:)")
# What the cdktf command line says after the messages of Terraform.
_END = re.compile(r"^\s*(\d+ Stacks? |Invoking Terraform CLI failed|\(exit code )")
_LONGEST = 500
_REFUSAL = re.compile(r"^\s*eagle3-kit: (?P<text>.*)$")


class RehearsalError(Eagle3Error):
    """A rehearsal that did not end well; the message names the phase, the resource and the first error."""

    def __init__(self, message: str, *, resource: str | None = None) -> None:
        super().__init__(message)
        self.resource = resource


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    """One error as Terraform printed it."""

    text: str
    """One line."""
    resource: str | None
    """Address, such as "aws_sqs_queue.Queue"; None if the error belongs to no resource."""


def plain(line: str) -> str:
    """A line without colours, cursor movements and boxes."""
    return _BOX.sub("", _CONTROL.sub("", line).strip("\r\n").replace("\r", "")).rstrip()


def first_error(lines: Iterable[str]) -> Diagnostic | None:
    """The first error in an output, with the resource that it names; None if there is none."""
    text: list[str] = []
    resource: str | None = None
    for raw in lines:
        line = plain(raw.strip())
        found = _ERROR.match(line)
        if found is not None:
            if text:
                break
            text.append(found["text"].strip())
        elif text and _END.match(line):
            break
        elif text and (named := _WITH.match(line)) is not None:
            resource = named["address"]
        elif text and not _SOURCE.match(line):
            text.append(line.strip())
    said = " ".join(" ".join(text).split())
    return Diagnostic(text=shortened(said), resource=resource) if said else None


def refusal(lines: Iterable[str]) -> str | None:
    """What the app says when it refuses its settings; None if it does not."""
    return next((found["text"] for line in lines if (found := _REFUSAL.match(plain(line))) is not None), None)


def shortened(text: str) -> str:
    """Enough of a long message to know what it is about; the log has all of it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def failed(phase: str, lines: list[str], *, exit_code: int) -> RehearsalError:
    """The error of a phase whose command failed: what its output says first, or its last line."""
    error = first_error(lines)
    if error is None:
        said = [text for text in (plain(line).strip() for line in lines) if text]
        last = f"; its last line: {said[-1]}" if said else ""
        return RehearsalError(f"{phase} ended with exit code {exit_code} and named no error{last}")
    at = f" at {error.resource}" if error.resource else ""
    return RehearsalError(f"{phase} failed{at}: {error.text}", resource=error.resource)

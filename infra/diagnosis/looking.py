"""One collector's notes while it looks: what it found, and what it could not see.

Knows no source. Invariant: a fault of a source ends as one `NotSeen`, never as an exception.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from infra.diagnosis.aws_reader import AwsReader, UnreadableError, error_code, error_text
from infra.diagnosis.evidence import Context, Evidence, Finding, NotSeen


class Looking:
    """Notes of one collector."""

    def __init__(self, source: str, context: Context) -> None:
        """`source` is named in every finding."""
        self._source, self._context = source, context
        self._findings: list[Finding] = []
        self._not_seen: list[NotSeen] = []

    def found(self, what: str, value: str, when: datetime | None = None) -> None:
        """Note what was seen."""
        self._findings.append(Finding(source=self._source, what=what, value=" ".join(value.split()), when=when))

    def missed(self, what: str, reason: str) -> None:
        """Note what could not be seen."""
        self._not_seen.append(NotSeen(source=f"{self._source} {what}".strip(), reason=reason))

    def read(
        self, service: str, operation: str, *, absent: tuple[str, ...] = (), in_region: str | None = None,
        **parameters: Any,
    ) -> dict[str, Any] | None:  # fmt: skip
        """An answer of AWS; {} if the thing asked for does not exist (a code of `absent`), None if it was not seen."""
        reader = self._context.aws
        assert isinstance(reader, AwsReader), "a collector of AWS is wanted only where there are credentials"
        try:
            return reader.read(service, operation, in_region=in_region, **parameters)
        except UnreadableError as error:
            self.missed(operation, str(error))
        except ClientError as error:
            if error_code(error) in absent:
                return {}
            self.missed(operation, f"{error_code(error)}: {error_text(error)}")
        return None

    def pages(
        self, service: str, operation: str, key: str, *, following: str = "NextToken", most: int = 5, **parameters: Any
    ) -> list[Any] | None:
        """Items of up to `most` pages of an answer, joined; None if the first page was not seen.

        `following` is the name under which an answer has, and a request takes, where the next page begins.
        """
        items: list[Any] = []
        place: dict[str, Any] = {}
        for page in range(most):
            answer = self.read(service, operation, **parameters, **place)
            if answer is None:
                return items if page else None
            items += answer.get(key, [])
            if not answer.get(following):
                return items
            place = {following: answer[following]}
        self.missed(operation, f"more than {most} pages; what lies behind them was not read")
        return items

    def evidence(self, *facts: object | None) -> Evidence:
        """Everything noted, with the facts of those sources that were seen."""
        return Evidence(
            findings=tuple(self._findings),
            not_seen=tuple(self._not_seen),
            facts=tuple(one for one in facts if one is not None),
        )


def utc(when: datetime) -> datetime:
    """The same moment in UTC; one without a zone is taken to be UTC already."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)

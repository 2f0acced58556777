"""Calls of AWS that the stack's roles made and that were refused, out of CloudTrail's history.

Facts: `RefusedFacts`. Knows no causes. The history is of the account: events that do not name the stack are passed
over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking, utc

_EVENTS = {
    "pods-unschedulable": ("CreateFleet", "RunInstances", "CreateLaunchTemplate"),
    "interruption-queue-stuck": ("AssumeRoleForPodIdentity",),
    "bootstrap-failed": ("DescribeCluster", "CreateNetworkInterface"),
}
"""Alarm to the names of the calls that matter; an event may be asked for by one name at a time."""
_LONGEST = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One call that was refused."""

    when: datetime
    call: str
    code: str
    """Such as "Client.UnauthorizedOperation" or "InsufficientInstanceCapacity"."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedFacts:
    """Refused calls of the time looked at, oldest first."""

    calls: tuple[Refusal, ...]

    def with_code(self, *words: str) -> tuple[Refusal, ...]:
        """Those whose code or text has one of these words in it."""
        return tuple(one for one in self.calls if any(word in f"{one.code} {one.text}" for word in words))


class RefusedCallCollector:
    """Looks events up in CloudTrail."""

    source: str = "CloudTrail"

    def wanted(self, context: Context) -> bool:
        """Where a refused call is a cause."""
        return context.aws is not None and context.alarm in _EVENTS

    def collect(self, context: Context) -> Evidence:
        """Events by name, and what refused them."""
        looking = Looking(self.source, context)
        refused: list[Refusal] = []
        seen = False
        for name in _EVENTS[context.alarm]:
            answer = looking.read(
                "cloudtrail", "lookup_events", LookupAttributes=[{"AttributeKey": "EventName", "AttributeValue": name}],
                StartTime=context.since, EndTime=context.now, MaxResults=50,
            )  # fmt: skip
            if answer is None:
                break  # the same reason again says no more than once
            seen = True
            for event in answer.get("Events", []):
                raw = event.get("CloudTrailEvent", "")
                if context.site in raw:
                    refused += _refusals(name, utc(event["EventTime"]), json.loads(raw))
        calls = tuple(sorted(refused, key=lambda one: one.when))
        for one in calls[-8:]:
            looking.found(f"refused call {one.call}", f"{one.code}: {one.text}"[:_LONGEST], one.when)
        if seen and not calls:
            looking.found("refused calls", "none in the time looked at")
        return looking.evidence(RefusedFacts(calls=calls) if seen else None)


def _refusals(call: str, when: datetime, event: dict[str, Any]) -> list[Refusal]:
    """The event's own error, or those inside its answer: CreateFleet succeeds although no instance could be had."""
    pairs = list(_errors(event))
    return [Refusal(when=when, call=call, code=code, text=text) for code, text in dict.fromkeys(pairs)]


def _errors(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if value.get("errorCode"):
            yield str(value["errorCode"]), str(value.get("errorMessage", ""))
        for inner in value.values():
            yield from _errors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _errors(inner)

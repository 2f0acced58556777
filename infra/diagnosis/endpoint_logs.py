"""What the endpoint's containers wrote: lines that tell of trouble, whether there is any line, and the group's class.

Facts: `LogFacts`. Knows no causes. Records of embedded metrics, which the same group takes, are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking

_ALARMS = ("endpoint-5xx", "model-latency-p99", "no-data", "gpu-memory-high", "async-backlog", "queue-growing")
_PATTERN = "?ERROR ?Error ?error ?WARNING ?Traceback ?memory ?reempt ?restart ?ready ?Killed ?killed"
_METRICS = re.compile(r'^\s*\{.*"_aws"')
_LONGEST, _MOST_SHOWN = 300, 8


def endpoint_log_group(context: Context) -> str:
    """Where SageMaker writes what the endpoint's containers print."""
    return f"/aws/sagemaker/Endpoints/{context.named('endpoint')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFacts:
    """Logs of one endpoint."""

    group: str
    exists: bool
    """Whether the group is there."""
    takes_metrics: bool
    """Whether it is of the class that takes metrics out of logs."""
    any_line: bool
    """Whether a container wrote anything in the time looked at."""
    lines: tuple[tuple[datetime, str], ...]
    """Those that tell of trouble, oldest first."""

    def matching(self, pattern: str) -> tuple[tuple[datetime, str], ...]:
        """Lines in which a regular expression is found, whatever the case."""
        wanted = re.compile(pattern, re.IGNORECASE)
        return tuple(line for line in self.lines if wanted.search(line[1]))


class EndpointLogCollector:
    """Filters the log group of the endpoint."""

    source: str = "CloudWatch Logs"

    def wanted(self, context: Context) -> bool:
        """Where the page looks into the container's log."""
        return context.aws is not None and context.stack != "large" and context.alarm in _ALARMS

    def collect(self, context: Context) -> Evidence:
        """Lines of trouble since the beginning of the time looked at."""
        looking = Looking(self.source, context)
        group = endpoint_log_group(context)
        groups = looking.read("logs", "describe_log_groups", logGroupNamePrefix=group)
        if groups is None:
            return looking.evidence()
        found = next((one for one in groups.get("logGroups", []) if one["logGroupName"] == group), None)
        if found is None:
            looking.found(f"log group {group}", "does not exist: no container has written anything")
            return looking.evidence(
                LogFacts(group=group, exists=False, takes_metrics=False, any_line=False, lines=())
            )  # fmt: skip
        window: dict[str, Any] = {
            "logGroupName": group,
            "startTime": int(context.since.timestamp() * 1000),
            "endTime": int(context.now.timestamp() * 1000),
        }
        events = looking.pages(
            "logs", "filter_log_events", "events", following="nextToken", filterPattern=_PATTERN, **window
        )
        if events is None:
            return looking.evidence()
        lines = tuple(
            sorted(
                (datetime.fromtimestamp(event["timestamp"] / 1000, UTC), event["message"].strip())
                for event in events
                if not _METRICS.match(event["message"])
            )
        )
        first = None if lines else looking.read("logs", "filter_log_events", limit=1, **window)
        facts = LogFacts(
            group=group,
            exists=True,
            takes_metrics=found.get("logGroupClass", "STANDARD") == "STANDARD",
            # A first page may be empty although more follow: then there is something.
            any_line=bool(lines) or first is None or bool(first.get("events") or first.get("nextToken")),
            lines=lines,
        )
        if not lines:
            looking.found(f"log group {group}", "no line of trouble" if facts.any_line else "no line at all")
        for when, line in lines[-_MOST_SHOWN:]:
            looking.found("log line", line[:_LONGEST], when)
        return looking.evidence(facts)

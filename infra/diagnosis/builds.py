"""The bootstrap's builds: how the last one ended, in which phase, and the end of its log.

Facts: `BuildFacts`. Knows no causes. The log group is of the class Infrequent Access, which can be read by a query of
Logs Insights only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking, utc

_QUERY = "fields @timestamp, @message, @logStream | sort @timestamp desc | limit 200"
_POLLS, _POLL_S = 20, 0.5
_SHOWN, _LONGEST = 8, 300


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildFacts:
    """The newest build."""

    status: str
    """"SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT", "STOPPED", "IN_PROGRESS"; "" if there was none."""
    began: datetime | None = None
    phase: str = ""
    """The phase that did not succeed."""
    said: str = ""
    """What that phase says."""
    log: tuple[str, ...] | None = None
    """The last lines, oldest first; None: not seen."""


class BuildCollector:
    """Reads CodeBuild and the build's log."""

    source: str = "CodeBuild"

    def wanted(self, context: Context) -> bool:
        """For the bootstrap's alarm."""
        return context.aws is not None and context.alarm == "bootstrap-failed"

    def collect(self, context: Context) -> Evidence:
        """Builds, newest first; the log of the newest that failed."""
        looking = Looking(self.source, context)
        project = context.named("bootstrap")
        listed = looking.read(
            "codebuild", "list_builds_for_project", absent=("ResourceNotFoundException",), projectName=project,
            sortOrder="DESCENDING",
        )  # fmt: skip
        if listed is None:
            return looking.evidence()
        ids = listed.get("ids", [])[:5]
        if not ids:
            looking.found(f"project {project}", "has no build, or does not exist")
            return looking.evidence(BuildFacts(status=""))
        answer = looking.read("codebuild", "batch_get_builds", ids=ids)
        if not answer or not answer.get("builds"):
            return looking.evidence()
        builds = sorted(answer["builds"], key=lambda build: utc(build["startTime"]), reverse=True)
        for build in reversed(builds):
            looking.found(f"build {build['id']}", build["buildStatus"], utc(build["startTime"]))
        newest = builds[0]
        phase, said = _broken_phase(newest)
        if phase:
            looking.found(f"phase {phase}", said or "says nothing")
        failed = newest["buildStatus"] not in ("SUCCEEDED", "IN_PROGRESS")
        log = _log(looking, context, newest) if failed else None
        for line in (log or ())[-_SHOWN:]:
            looking.found("log line", line[:_LONGEST])
        return looking.evidence(
            BuildFacts(status=newest["buildStatus"], began=utc(newest["startTime"]), phase=phase, said=said, log=log)
        )


def _broken_phase(build: dict[str, Any]) -> tuple[str, str]:
    for phase in build.get("phases", []):
        if phase.get("phaseStatus", "SUCCEEDED") != "SUCCEEDED":
            contexts = [one for one in phase.get("contexts", []) if one]
            said = "; ".join(
                filter(None, (f"{one.get('statusCode', '')} {one.get('message', '')}" for one in contexts))
            )
            return str(phase["phaseType"]), " ".join(said.split())
    return "", ""


def _log(looking: Looking, context: Context, build: dict[str, Any]) -> tuple[str, ...] | None:
    where = build.get("logs", {})
    group = where.get("groupName") or f"/aws/codebuild/{context.named('bootstrap')}"
    ended = build.get("endTime")
    started = looking.read(
        "logs", "start_query", absent=("ResourceNotFoundException",), logGroupName=group, queryString=_QUERY,
        startTime=int(utc(build["startTime"]).timestamp()),
        endTime=int((context.now if ended is None else utc(ended) + timedelta(minutes=5)).timestamp()),
    )  # fmt: skip
    if not started:
        if started is not None:
            looking.missed(f"log group {group}", "does not exist")
        return None
    for _ in range(_POLLS):
        answer = looking.read("logs", "get_query_results", queryId=started["queryId"])
        if answer is None:
            return None
        if answer.get("status") == "Complete":
            rows = [{cell["field"]: cell["value"] for cell in row} for row in answer.get("results", [])]
            stream = where.get("streamName")
            own = [row for row in rows if stream is None or row.get("@logStream") == stream] or rows
            return tuple(" ".join(row.get("@message", "").split()) for row in reversed(own))
        if answer.get("status") not in ("Scheduled", "Running"):
            looking.missed(f"log group {group}", f"the query ended as {answer.get('status')}")
            return None
        context.wait(_POLL_S)
    looking.missed(f"log group {group}", f"the query did not end within {_POLLS * _POLL_S:g} s")
    return None

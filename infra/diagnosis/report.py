"""What a diagnosis says: the causes, what was seen, and what could not be looked at. As text and as JSON.

Pure. Invariant: whatever could not be looked at is said next to the causes, since another cause may hide there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.diagnosis.evidence import Cause, Context, Evidence, Finding


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One diagnosis."""

    context: Context
    evidence: Evidence
    causes: tuple[Cause, ...]
    """The most probable first."""

    def as_json(self) -> dict[str, Any]:
        """One object; times in ISO 8601."""
        context, evidence = self.context, self.evidence
        return {
            "alarm": context.alarm,
            "site": context.site,
            "since": context.since.isoformat(timespec="seconds"),
            "until": context.now.isoformat(timespec="seconds"),
            "causes": [
                {
                    "cause": one.name,
                    "certainty": one.certainty,
                    "step": one.step,
                    "because": [_as_json(finding) for finding in one.because],
                }
                for one in self.causes
            ],
            "findings": [_as_json(finding) for finding in evidence.findings],
            "not_seen": [{"source": one.source, "reason": one.reason} for one in evidence.not_seen],
        }

    def as_text(self) -> str:
        """For a person: causes first."""
        context, evidence = self.context, self.evidence
        lines = [f"{context.alarm} of {context.site}, {_time(context.since)} to {_time(context.now)}", ""]
        lines += ["Causes, the most probable first:"] if self.causes else [_nothing_found(evidence)]
        for number, one in enumerate(self.causes, 1):
            lines.append(f"  {number}. {one.name} ({one.certainty})")
            lines += [f"       {_line(finding)}" for finding in one.because]
            lines.append(f"     then: {one.step}")
        lines += ["", f"Seen ({len(evidence.findings)}):"]
        lines += [f"  {_line(finding)}" for finding in evidence.findings] or ["  nothing"]
        lines += ["", f"Could not be looked at ({len(evidence.not_seen)}):"]
        lines += [f"  {one.source}: {one.reason}" for one in evidence.not_seen] or ["  nothing that the page asks for"]
        lines += ["", f"The whole page: eagle3 runbook show {context.alarm} --site {context.site}"]
        return "\n".join(lines)


def _nothing_found(evidence: Evidence) -> str:
    if not evidence.findings:
        return "No cause found: nothing could be looked at."
    unseen = "" if not evidence.not_seen else " What could not be looked at may hide one."
    return f"No cause found in what was seen.{unseen}"


def _line(finding: Finding) -> str:
    when = "" if finding.when is None else f" [{_time(finding.when)}]"
    return f"{finding.source}: {finding.what}: {finding.value}{when}"


def _time(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}Z"


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "source": finding.source,
        "what": finding.what,
        "value": finding.value,
        "when": None if finding.when is None else finding.when.isoformat(timespec="seconds"),
    }

"""The result of a rehearsal that went well, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedOnly:
    """A resource that was in Terraform's state and not in the local AWS."""

    type: str
    """Such as "aws_cloudfront_vpc_origin"."""
    id: str
    reason: str
    """What the local AWS lacks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a rehearsal did. Nothing was left behind and a second plan was empty, or there would be no report."""

    stack: str
    provider: str
    """Which one, with its version."""
    terraform_version: str
    created: int
    changed: int
    destroyed: int
    types: Mapping[str, int]
    """Resource type to how many there were, all of them in Terraform's state."""
    recorded: tuple[RecordedOnly, ...]
    """What the local AWS cannot make."""
    seconds: Mapping[str, float]
    """Phase to how long it took."""
    kept: Path | None
    """Folder with the synthesized stack, the state and the log, if it was to be kept."""

    @property
    def made(self) -> int:
        """Resources that the local AWS really had."""
        return self.created - len(self.recorded)

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "stack": self.stack,
            "provider": self.provider,
            "terraform": self.terraform_version,
            "created": self.created,
            "changed": self.changed,
            "destroyed": self.destroyed,
            "second_plan_changes": 0,
            "leftovers": 0,
            "made_in_local_aws": self.made,
            "recorded_only": [asdict(entry) for entry in self.recorded],
            "types": dict(sorted(self.types.items())),
            "seconds": {phase: round(seconds, 2) for phase, seconds in self.seconds.items()},
            "kept": None if self.kept is None else str(self.kept),
        }

    def as_text(self) -> str:
        """A table for people."""
        rows = [
            ("stack", self.stack),
            ("provider", self.provider),
            ("terraform", self.terraform_version),
            ("resources created", f"{self.created}, of {len(self.types)} types"),
            ("resources changed", str(self.changed)),
            ("resources destroyed", str(self.destroyed)),
            ("second plan", "no change"),
            ("left in the local AWS", "nothing"),
            ("made in the local AWS", f"{self.made} of {self.created}"),
        ]
        if self.recorded:
            rows.append(("recorded only", _grouped(self.recorded)))
        rows.append(("seconds", ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in self.seconds.items())))
        if self.kept is not None:
            rows.append(("kept in", str(self.kept)))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {text}" for name, text in rows]
        return "\n".join([*lines, "", *(f"{count:>5}  {kind}" for kind, count in sorted(self.types.items()))])


def _grouped(recorded: tuple[RecordedOnly, ...]) -> str:
    """Types by reason, with how many of each."""
    by_reason: dict[str, Counter[str]] = {}
    for entry in recorded:
        by_reason.setdefault(entry.reason, Counter())[entry.type] += 1
    return "; ".join(
        f"{', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}: {reason or 'no reason given'}"
        for reason, kinds in sorted(by_reason.items())
    )

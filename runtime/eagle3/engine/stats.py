"""Counters of speculative decoding. Counts and seconds only; ratios are made when they are read."""

from __future__ import annotations

from dataclasses import dataclass, field

_SUMMED = (
    "cycles", "cycle_tokens", "drafted_cycles", "drafted_cycle_tokens", "drafted", "draft_s", "verify_s", "prefill_s",
    "total_s", "output_tokens",
)  # fmt: skip


@dataclass(kw_only=True, slots=True)
class DecodeStats:
    """What the cycles of one or more answers did."""

    cycles: int = 0
    """Verification passes of the target; the prefill is not one."""
    cycle_tokens: int = 0
    """Tokens that cycles added to the text; what was cut off after an end is not counted."""
    drafted_cycles: int = 0
    """Of the cycles, those that verified a node; the others were plain."""
    drafted_cycle_tokens: int = 0
    """Of the cycles' tokens, those of drafted cycles."""
    drafted: int = 0
    """Tree nodes verified, roots not counted."""
    accepted_at_depth: list[int] = field(default_factory=list)
    """Cycles that accepted a node at depth 1, 2, …"""
    draft_s: float = 0.0
    """Seconds in the draft: observing and proposing."""
    verify_s: float = 0.0
    """Seconds in the target's verification passes and in choosing tokens."""
    prefill_s: float = 0.0
    """Seconds until the first token."""
    total_s: float = 0.0
    """Seconds from the start of the prefill to the last token."""
    output_tokens: int = 0
    """Tokens of the answers, the first one (which the prefill gives) included."""

    @property
    def tau(self) -> float:
        """Tokens emitted per cycle, plain ones and the bonus token included; 0.0 before the first cycle."""
        return self.cycle_tokens / self.cycles if self.cycles else 0.0

    @property
    def acceptance_by_depth(self) -> list[float]:
        """Share of cycles that accepted a node at depth 1, 2, …"""
        return [count / self.cycles for count in self.accepted_at_depth] if self.cycles else []

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second, prefill included."""
        return self.output_tokens / self.total_s if self.total_s else 0.0

    def count_cycle(self, *, drafted: int, accepted: int, kept_tokens: int) -> None:
        """Add one cycle that verified `drafted` nodes, accepted `accepted` and kept `kept_tokens` tokens."""
        self.cycles += 1
        self.cycle_tokens += kept_tokens
        self.drafted += drafted
        if drafted:
            self.drafted_cycles += 1
            self.drafted_cycle_tokens += kept_tokens
        # A token cut off after an end of text was never emitted, so its node does not count as accepted.
        for depth in range(min(accepted, kept_tokens)):
            if depth == len(self.accepted_at_depth):
                self.accepted_at_depth.append(0)
            self.accepted_at_depth[depth] += 1

    def add(self, other: DecodeStats) -> None:
        """Add the counters of another answer."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        longest = max(len(self.accepted_at_depth), len(other.accepted_at_depth))
        mine = self.accepted_at_depth + [0] * (longest - len(self.accepted_at_depth))
        theirs = other.accepted_at_depth + [0] * (longest - len(other.accepted_at_depth))
        self.accepted_at_depth = [a + b for a, b in zip(mine, theirs, strict=True)]

"""Counters of the engine that never go back, and the rates between two readings of them.

Knows no exporter and no clock. Invariant: every counter of `Totals` is the sum of non-negative steps, whatever the
snapshots do; a rate whose divisor is zero is None, never 0 or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eagle3.config.speculation import MAX_DEPTH
from eagle3.engine.interface import EngineSnapshot

COUNTERS = (
    "output_tokens", "cycles", "cycle_tokens", "drafted_cycles", "drafted_cycle_tokens", "drafted_nodes",
    "draft_seconds", "verify_seconds", "prompt_tokens", "reused_prompt_tokens", "preemptions", "engine_restarts",
)  # fmt: skip
"""Names as Prometheus has them, without prefix and suffix."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """One reading of every counter."""

    values: dict[str, float]
    """By the names of COUNTERS."""
    accepted_at_depth: tuple[int, ...]
    """Cycles that accepted a node at depth 1, 2, …"""

    def __getitem__(self, name: str) -> float:
        return self.values[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What happened between two readings; None where nothing can be said."""

    tokens_per_second: float | None = None
    acceptance_rate: float | None = None
    """Tokens per drafted cycle: plain ones, which load decides on, say nothing about the draft."""
    draft_latency_ms: float | None = None
    verify_latency_ms: float | None = None
    acceptance_by_depth: tuple[float, ...] = ()
    """Share of drafted cycles; empty without any."""


class TotalsTracker:
    """Adds up snapshots.

    Snapshots are cumulative by contract. Where one counts less than its predecessor all the same (an engine made anew
    behind an adapter, an answer recounted after its end was cut off), that step counts as nothing and the count goes
    on from the new value: at most one interval is missing, and nothing is counted twice over.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = dict.fromkeys(COUNTERS, 0.0)
        self._last_depths: list[int] = []
        self._values: dict[str, float] = dict.fromkeys(COUNTERS, 0.0)
        self._depths: list[int] = []

    def update(self, snapshot: EngineSnapshot) -> Totals:
        """Add what is new in a snapshot and read the counters."""
        stats = snapshot.stats
        now: dict[str, float] = {
            "output_tokens": stats.output_tokens,
            "cycles": stats.cycles,
            "cycle_tokens": stats.cycle_tokens,
            "drafted_cycles": stats.drafted_cycles,
            "drafted_cycle_tokens": stats.drafted_cycle_tokens,
            "drafted_nodes": stats.drafted,
            "draft_seconds": stats.draft_s,
            "verify_seconds": stats.verify_s,
            "prompt_tokens": snapshot.prompt_tokens,
            "reused_prompt_tokens": snapshot.reused_prompt_tokens,
            "preemptions": snapshot.preemptions,
            "engine_restarts": snapshot.restarts,
        }
        for name, value in now.items():
            self._values[name] += max(0.0, value - self._last[name])
        self._last = now
        depths = list(stats.accepted_at_depth[:MAX_DEPTH])  # bounds the label values too
        for index, count in enumerate(depths):
            if index == len(self._depths):
                self._depths.append(0)
            last = self._last_depths[index] if index < len(self._last_depths) else 0
            self._depths[index] += max(0, count - last)
        self._last_depths = depths
        return self.read()

    def read(self) -> Totals:
        return Totals(values=dict(self._values), accepted_at_depth=tuple(self._depths))


def rates_between(before: Totals, after: Totals, elapsed_s: float) -> Rates:
    """Rates over the time between two readings."""
    if elapsed_s <= 0:
        return Rates()
    tokens_per_second = (after["output_tokens"] - before["output_tokens"]) / elapsed_s
    cycles = after["cycles"] - before["cycles"]
    if cycles <= 0:
        return Rates(tokens_per_second=tokens_per_second)

    def per_cycle_ms(name: str) -> float | None:
        # An engine behind another program's API counts cycles but may not say how long they took.
        return (after[name] - before[name]) / cycles * 1e3 if after[name] > 0 else None

    latencies = Rates(
        tokens_per_second=tokens_per_second,
        draft_latency_ms=per_cycle_ms("draft_seconds"),
        verify_latency_ms=per_cycle_ms("verify_seconds"),
    )
    drafted = after["drafted_cycles"] - before["drafted_cycles"]
    if drafted <= 0:
        return latencies
    earlier = before.accepted_at_depth + (0,) * (len(after.accepted_at_depth) - len(before.accepted_at_depth))
    return replace(
        latencies,
        acceptance_rate=(after["drafted_cycle_tokens"] - before["drafted_cycle_tokens"]) / drafted,
        acceptance_by_depth=tuple(
            (now - then) / drafted for now, then in zip(after.accepted_at_depth, earlier, strict=True)
        ),
    )


class Window:
    """The last interval that ended, and the one that is running."""

    def __init__(self, now_s: float, totals: Totals) -> None:
        self._start_s = now_s
        self._start = totals
        self.rates = Rates()
        """Of the interval that ended last."""

    def age_s(self, now_s: float) -> float:
        """Seconds since the running interval began."""
        return now_s - self._start_s

    def close(self, now_s: float, totals: Totals) -> Rates:
        """End the running interval and begin the next."""
        self.rates = rates_between(self._start, totals, now_s - self._start_s)
        self._start_s, self._start = now_s, totals
        return self.rates

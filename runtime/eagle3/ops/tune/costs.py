"""What passes cost here, measured: the median of takes that go through all sizes in turn, back and forth.

In turn, so that a moment of disturbance falls on every size alike. Knows no shapes and no texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from eagle3.engine.costs import RowCosts
from eagle3.engine.cycle import StepRunner

VERIFY_ROWS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 17, 21, 25, 33, 49, 64)
DRAFT_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassCosts:
    """Seconds of passes by their rows."""

    verify_s: dict[int, float]
    draft_s: dict[int, float]

    def verify(self) -> RowCosts:
        """Of the target, between the measured sizes by straight lines."""
        return RowCosts(self.verify_s)

    def draft(self) -> RowCosts:
        """Of the draft."""
        return RowCosts(self.draft_s)


def measure_passes(runner: StepRunner, *, repeats: int, on_take: Callable[[], None]) -> PassCosts:
    """Time every size `repeats` times, after once that does not count; overwrites the caches' first slots."""
    verify: dict[int, list[float]] = {rows: [] for rows in VERIFY_ROWS if rows <= runner.num_slots}
    draft: dict[int, list[float]] = {rows: [] for rows in DRAFT_ROWS if rows <= runner.num_slots}
    passes = [(runner.verify_seconds, verify, rows) for rows in verify]
    passes += [(runner.draft_seconds, draft, rows) for rows in draft]
    for turn in range(repeats + 1):
        for seconds_of, takes, rows in passes if turn % 2 else reversed(passes):
            took = seconds_of(rows)
            if turn:
                takes[rows].append(took)
        on_take()
    # A pass of fewer rows that took longer was disturbed: it costs what the larger one does.
    return PassCosts(
        verify_s=_rising({rows: median(takes) for rows, takes in verify.items()}),
        draft_s=_rising({rows: median(takes) for rows, takes in draft.items()}),
    )


def _rising(seconds_at: dict[int, float]) -> dict[int, float]:
    least = float("inf")
    for rows in sorted(seconds_at, reverse=True):
        least = min(least, seconds_at[rows])
        seconds_at[rows] = least
    return seconds_at

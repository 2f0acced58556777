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
    takes: list[tuple[Callable[[int], float], int, list[float]]] = [
        *((runner.verify_seconds, rows, []) for rows in VERIFY_ROWS if rows <= runner.num_slots),
        *((runner.draft_seconds, rows, []) for rows in DRAFT_ROWS if rows <= runner.num_slots),
    ]
    for turn in range(repeats + 1):
        for seconds_of, rows, seconds in takes if turn % 2 else reversed(takes):
            took = seconds_of(rows)
            if turn:
                seconds.append(took)
        on_take()
    verify = {rows: median(seconds) for seconds_of, rows, seconds in takes if seconds_of == runner.verify_seconds}
    draft = {rows: median(seconds) for seconds_of, rows, seconds in takes if seconds_of == runner.draft_seconds}
    return PassCosts(verify_s=verify, draft_s=draft)

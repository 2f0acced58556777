"""Measures what passes of both models cost, before the first request; serving then refines it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from eagle3.config.speculation import Speculation
from eagle3.engine.costs import RowCosts, StepTimes
from eagle3.engine.cycle import StepRunner
from eagle3.engine.policy import AdaptivePolicy

_log = logging.getLogger(__name__)

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TAKES = 3
# Two takes of so long in all are enough: what disturbs a pass for a moment counts less, and the server waits.
_ENOUGH_S = 0.1
# Larger passes cost in proportion; measuring them would only delay the start.
_LONG_S = 0.3


def calibrated_policy(runner: StepRunner, full: Speculation) -> AdaptivePolicy:
    """An adaptive policy that knows what passes cost on this machine."""
    verify: dict[int, float] = {}
    draft: dict[int, float] = {}
    for rows in _ROWS:
        if rows > runner.num_slots or max(verify.values(), default=0.0) > _LONG_S:
            break
        verify[rows] = _least(runner.verify_seconds, rows)
        draft[rows] = _least(runner.draft_seconds, rows)
    for name, costs in (("target", verify), ("draft", draft)):
        listed = ", ".join(f"{rows}: {seconds * 1e3:.1f}" for rows, seconds in costs.items())
        _log.info("milliseconds of a %s pass by rows: %s", name, listed)
    return AdaptivePolicy(full, StepTimes(RowCosts(verify), RowCosts(draft)))


def _least(seconds_of: Callable[[int], float], rows: int) -> float:
    """The shortest of a few takes: whatever disturbs a measurement only makes it longer."""
    takes = [seconds_of(rows), seconds_of(rows)]
    while len(takes) < _TAKES and sum(takes) < _ENOUGH_S:
        takes.append(seconds_of(rows))
    return min(takes)

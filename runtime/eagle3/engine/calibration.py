"""Measures what passes of both models cost, before the first request; serving then refines it."""

from __future__ import annotations

import logging

from eagle3.config.speculation import Speculation
from eagle3.engine.costs import RowCosts, StepTimes
from eagle3.engine.cycle import StepRunner
from eagle3.engine.policy import AdaptivePolicy

_log = logging.getLogger(__name__)

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_TAKES = 3
# Larger passes cost in proportion; measuring them would only delay the start.
_LONG_S = 0.3


def calibrated_policy(runner: StepRunner, full: Speculation) -> AdaptivePolicy:
    """An adaptive policy that knows what passes cost on this machine."""
    verify: dict[int, float] = {}
    draft: dict[int, float] = {}
    for rows in _ROWS:
        if rows > runner.num_slots or max(verify.values(), default=0.0) > _LONG_S:
            break
        # The least: whatever disturbs a measurement only makes it longer.
        verify[rows] = min(runner.verify_seconds(rows) for _ in range(_TAKES))
        draft[rows] = min(runner.draft_seconds(rows) for _ in range(_TAKES))
    for name, costs in (("target", verify), ("draft", draft)):
        listed = ", ".join(f"{rows}: {seconds * 1e3:.1f}" for rows, seconds in costs.items())
        _log.info("milliseconds of a %s pass by rows: %s", name, listed)
    return AdaptivePolicy(full, StepTimes(RowCosts(verify), RowCosts(draft)))

"""How fast requests are finished, for telling a refused client when to come back.

Knows no clock of its own. Invariant: `seconds_for` is between 1 and 60.
"""

from __future__ import annotations

import math
from collections import deque

_WINDOW = 64
_LEAST_S = 1
_MOST_S = 60
_UNMEASURED_S = 5


class CompletionRate:
    """Times of the last finished requests."""

    def __init__(self) -> None:
        self._finished: deque[float] = deque(maxlen=_WINDOW)

    def finished(self, now_s: float) -> None:
        """One more request left the engine."""
        self._finished.append(now_s)

    def seconds_for(self, count: int, now_s: float) -> int:
        """Whole seconds until `count` requests will have been finished, at the measured rate."""
        if len(self._finished) < 2:
            return _UNMEASURED_S
        per_s = len(self._finished) / max(now_s - self._finished[0], 1e-3)
        return min(_MOST_S, max(_LEAST_S, math.ceil(count / per_s)))

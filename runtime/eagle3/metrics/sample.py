"""Observations of one interval in bounded memory. Knows no metrics.

Invariant: every observation since the last `take` is equally likely to be among those kept, so that quantiles of
what is kept estimate the quantiles of all.
"""

from __future__ import annotations

import random


class Sample:
    """Keeps all observations up to `capacity`, and a uniform sample of them beyond (reservoir sampling)."""

    def __init__(self, capacity: int, generator: random.Random) -> None:
        self._capacity = capacity
        self._generator = generator
        self._kept: list[float] = []
        self._seen = 0

    def add(self, value: float) -> None:
        self._seen += 1
        if len(self._kept) < self._capacity:
            self._kept.append(value)
        elif self._capacity:
            place = self._generator.randrange(self._seen)
            if place < self._capacity:
                self._kept[place] = value

    def take(self) -> tuple[float, ...]:
        """The observations kept since the last call; starts anew."""
        kept, self._kept, self._seen = tuple(self._kept), [], 0
        return kept

"""The monthly ranges that are published for the three stacks, and where an estimate lies in them.

Knows no items: it asks for totals at other shares and hours. A total is a straight line in the spot share and in the
hours a day, so two totals say where it crosses a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Totals = Callable[[float], float]
"""USD a month at a spot share, or at hours a day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicRange:
    """USD a month that are published for a stack, and for how many machines."""

    low: float
    high: float
    machines: int
    """GPU machines that the range speaks of."""

    def verdict(self, usd: float) -> str:
        """below, within or above."""
        return "below" if usd < self.low else "above" if usd > self.high else "within"


RANGES: dict[str, PublicRange] = {
    "small": PublicRange(low=800, high=1200, machines=1),
    "medium": PublicRange(low=8000, high=12_000, machines=2),
    "large": PublicRange(low=40_000, high=60_000, machines=4),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Values of a lever for which a total lies within a range."""

    least: float
    most: float


def span_within(totals: Totals, bounds: PublicRange, *, least: float, most: float) -> Span | None:
    """Where between `least` and `most` of a lever the total is within the range; None if nowhere."""
    first, last = totals(least), totals(most)
    if first == last:
        return Span(least=least, most=most) if bounds.verdict(first) == "within" else None
    at_low, at_high = (least + (bound - first) / (last - first) * (most - least) for bound in (bounds.low, bounds.high))
    begin, end = max(least, min(at_low, at_high)), min(most, max(at_low, at_high))
    return Span(least=begin, most=end) if begin <= end else None

"""Values of metrics over time, and how those of an alarm's minutes compare with those before.

Pure. Invariant: points ascend in time. Without enough points on both sides nothing is said to have changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

_FEWEST = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One statistic of one metric."""

    metric: str
    """CloudWatch name."""
    statistic: str
    """Such as "p99"."""
    period_s: int
    points: tuple[tuple[datetime, float], ...]
    """Beginnings of the periods that have data, and their values in the metric's unit."""

    def split(self, at: datetime) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Values before a moment, and from it on."""
        before = tuple(value for when, value in self.points if when < at)
        return before, tuple(value for _, value in self.points[len(before) :])

    def change(self, at: datetime) -> Change | None:
        """Means on both sides of a moment; None with fewer than three values on a side."""
        before, after = self.split(at)
        if min(len(before), len(after)) < _FEWEST:
            return None
        return Change(before=fmean(before), after=fmean(after))

    @property
    def last(self) -> tuple[datetime, float] | None:
        """The newest point."""
        return self.points[-1] if self.points else None

    def said(self) -> str:
        """In words: how many values, their range, the newest."""
        if not self.points:
            return "no data"
        values = [value for _, value in self.points]
        return f"{len(values)} values from {min(values):.4g} to {max(values):.4g}, newest {values[-1]:.4g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Means before and after a moment."""

    before: float
    after: float

    def rose(self, times: float) -> bool:
        """Whether it is that many times what it was, or was nothing and is something."""
        return self.after > 0 and self.after >= self.before * times

    def fell(self, times: float) -> bool:
        """Whether it is that share of what it was, or less."""
        return self.before > 0 and self.after <= self.before * times

    def said(self) -> str:
        """In words."""
        return f"{self.after:.4g} on average since, {self.before:.4g} before"

"""What a price is: an item, where, how it is bought, how much, and who says so.

Knows no prices. Invariant: a price without a source cannot be made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HOURS_PER_MONTH = 730
EVERYWHERE = "*"

Purchase = Literal["on-demand", "spot", "plan-1y", "plan-3y"]
"""plan-1y, plan-3y: a Savings Plan of one or three years without payment in advance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where prices were read."""

    name: str
    """Document or data set."""
    date: str
    """Day of the prices, or of reading where the source names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What one unit of an item costs."""

    item: str
    """Instance type, or a name such as "eks-cluster"."""
    region: str
    """Region, or "*" where every commercial region of the source has the same price."""
    purchase: Purchase
    """How it is bought."""
    unit: str
    """What one is: "hour", "GB", "GB-month", "month", "10,000 requests"."""
    usd: float
    """Dollars a unit."""
    source: Source
    """Where it comes from."""

    @property
    def usd_per_month(self) -> float:
        """Dollars for a month of 730 hours; only prices by the hour or month have one."""
        assert self.unit in ("hour", "month"), f"{self.item} is billed by the {self.unit}"
        return self.usd * HOURS_PER_MONTH if self.unit == "hour" else self.usd

"""Items with prices: the lines of an estimate, what they add up to, and what is missing from the sum.

Knows where prices come from by their sources only. Invariant: a line without a price or a quantity adds nothing to a
sum and is named by `Estimate.lacking`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eagle3.errors import ConfigError
from infra.catalogue.price import HOURS_PER_MONTH, Price
from infra.estimate.book import Book
from infra.estimate.item import GROUPS, Group, Item


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One item and what it costs."""

    item: Item
    price: Price | None
    """None: no public source names one for the region."""
    hours: float
    """Hours a month that count, for a price by the hour."""
    remark: str = ""
    """What a reader must know of the price."""

    @property
    def usd(self) -> float | None:
        """Dollars a month; None where the price or the quantity is unknown."""
        if self.price is None or self.item.quantity is None:
            return None
        if self.price.unit == "hour":
            return self.item.quantity * self.price.usd * self.hours
        if self.price.unit == "month":
            return self.item.quantity * self.price.usd * self.hours / HOURS_PER_MONTH
        return self.item.quantity * self.price.usd


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A month of one stack in one region."""

    region: str
    lines: tuple[Line, ...]

    @property
    def usd(self) -> float:
        """Dollars a month of all lines that have a price."""
        return sum(line.usd or 0.0 for line in self.lines)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Names of the lines that the sum lacks."""
        return tuple(line.item.name for line in self.lines if line.usd is None)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks of the lines, each once."""
        return tuple(dict.fromkeys(line.remark for line in self.lines if line.remark))

    def subtotal(self, group: Group) -> float:
        """Dollars a month of a group."""
        return sum(line.usd or 0.0 for line in self.of(group))

    def of(self, group: Group) -> tuple[Line, ...]:
        """Lines of a group."""
        return tuple(line for line in self.lines if line.item.group == group)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups that have lines."""
        return tuple(group for group in GROUPS if self.of(group))


def priced(items: Iterable[Item], *, region: str, hours: float, book: Book) -> Estimate:
    """Look the prices up; ConfigError where a region has none for what the stack runs on.

    `hours`: hours a month of what is scheduled. A plan is paid for all hours; without a rate it is not applied.
    """
    return Estimate(region=region, lines=tuple(_line(item, region, hours, book) for item in items))


def _line(item: Item, region: str, hours: float, book: Book) -> Line:
    price, remark = book.find(item.price, region, item.purchase), ""
    planned = item.purchase.startswith("plan-")
    if price is None and planned:
        price = book.find(item.price, region, "on-demand")
        remark = f"no public rate of a {item.purchase[-2:]} plan for {item.price} in {region}: counted on demand"
        planned = False
    if price is None and item.main and item.quantity:
        raise ConfigError(
            f"no public {item.purchase} price of {item.price} in {region}, so its estimate is worth nothing; "
            f"ask AWS with --live, choose another region, or add the price to infra/catalogue with its source"
        )
    return Line(
        item=item,
        price=price,
        hours=hours if item.scheduled and not planned else HOURS_PER_MONTH,
        remark=remark if price is not None else "",
    )

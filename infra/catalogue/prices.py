"""Dated public prices of what the stacks run, in US dollars, for limits and estimates.

Knows no settings and asks nobody. A price is what was public on its source's day, without tax or discount; every row
carries that source. Spot prices move by the hour: a row holds the median over a region's zones on its day. Invariant:
no row without a source, and nothing guessed for a region that no source names.
"""

from __future__ import annotations

from eagle3.errors import ConfigError
from infra.catalogue.instance_prices import (
    A100_HOURS,
    ENDPOINT_HOURS,
    FMBENCH,
    KARPENTER,
    PLAN_1Y_HOURS,
    PLAN_3Y_HOURS,
    RESERVED_1Y,
    RESERVED_3Y,
    SKYPILOT,
    US_EAST_1_HOURS,
)
from infra.catalogue.price import EVERYWHERE, HOURS_PER_MONTH, Price, Purchase, Source
from infra.catalogue.service_prices import SERVICES

__all__ = ["EVERYWHERE", "HOURS_PER_MONTH", "PRICES", "Price", "Purchase", "Source", "find_price", "price"]


def _table() -> dict[tuple[str, str, Purchase], Price]:
    prices: list[Price] = []

    def add(item: str, region: str, purchase: Purchase, unit: str, usd: float, source: Source) -> None:
        prices.append(Price(item=item, region=region, purchase=purchase, unit=unit, usd=usd, source=source))

    for item, regions in A100_HOURS.items():
        for region, (on_demand, spot) in regions.items():
            add(item, region, "on-demand", "hour", on_demand, SKYPILOT)
            if spot is not None:
                add(item, region, "spot", "hour", spot, SKYPILOT)
    for hours, source in ((US_EAST_1_HOURS, KARPENTER), (ENDPOINT_HOURS, FMBENCH)):
        for item, usd in hours.items():
            add(item, "us-east-1", "on-demand", "hour", usd, source)
    plans: tuple[tuple[dict[str, dict[str, float]], Purchase, Source], ...] = (
        (PLAN_1Y_HOURS, "plan-1y", RESERVED_1Y),
        (PLAN_3Y_HOURS, "plan-3y", RESERVED_3Y),
    )
    for rows, purchase, source in plans:
        for item, rates in rows.items():
            for region, usd in rates.items():
                add(item, region, purchase, "hour", usd, source)
    for item, region, unit, usd, source in SERVICES:
        add(item, region, "on-demand", unit, usd, source)
    return {(price.item, price.region, price.purchase): price for price in prices}


PRICES = _table()


def find_price(item: str, region: str, purchase: Purchase = "on-demand") -> Price | None:
    """The price of an item in a region, or None where the table has none."""
    return PRICES.get((item, region, purchase)) or PRICES.get((item, EVERYWHERE, purchase))


def price(item: str, region: str, purchase: Purchase = "on-demand") -> Price:
    """The price of an item in a region; ConfigError says where the table has one."""
    found = find_price(item, region, purchase)
    if found is None:
        known = sorted(place for name, place, how in PRICES if name == item and how == purchase)
        where = f"known in {', '.join(known)}" if known else "known nowhere"
        raise ConfigError(
            f"no public {purchase} price of {item} in {region} in the table ({where}); say pools' max_nodes instead "
            "of a share of the budget, or add the price to infra/catalogue/prices.py with its source"
        )
    return found

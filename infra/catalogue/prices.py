"""Dated public prices of what the stacks run, in US dollars, for limits and estimates.

Knows no settings and asks nobody. A price is what was public on its source's day, without tax or discount; every row
carries that source. Spot prices move by the hour: a row holds the median over a region's zones on its day. Invariant:
no row without a source, and nothing guessed for a region that no source names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagle3.errors import ConfigError

HOURS_PER_MONTH = 730
EVERYWHERE = "*"

Purchase = Literal["on-demand", "spot"]


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
    """What one is: "hour", "GB", "month", "10,000 requests"."""
    usd: float
    """Dollars a unit."""
    source: Source
    """Where it comes from."""

    @property
    def usd_per_month(self) -> float:
        """Dollars for a month of 730 hours; only prices by the hour or month have one."""
        assert self.unit in ("hour", "month"), f"{self.item} is billed by the {self.unit}"
        return self.usd * HOURS_PER_MONTH if self.unit == "hour" else self.usd


KARPENTER = Source(name="on-demand price table of Karpenter's AWS provider 1.14.1 (AWS Price List)", date="2026-07-20")
SKYPILOT = Source(name="SkyPilot catalog v8 for AWS (AWS Price List, DescribeSpotPriceHistory)", date="2026-11-30")
EKS_PAGE = Source(name="AWS pricing page and announcement: Amazon EKS", date="2026-11-30")
VPC_PAGE = Source(name="AWS pricing pages: Amazon VPC and AWS PrivateLink", date="2026-11-30")
KMS_PAGE = Source(name="AWS pricing page: AWS Key Management Service", date="2026-11-30")

_US_EAST_1_HOURS: dict[str, float] = {
    "p4d.24xlarge": 21.957642,
    "p4de.24xlarge": 27.44705,
    "p5.4xlarge": 6.88,
    "p5.48xlarge": 55.04,
    "g5.xlarge": 1.006,
    "g5.2xlarge": 1.212,
    "g5.4xlarge": 1.624,
    "g5.8xlarge": 2.448,
    "g5.12xlarge": 5.672,
    "g5.16xlarge": 4.096,
    "g5.24xlarge": 8.144,
    "g5.48xlarge": 16.288,
    "g6.xlarge": 0.8048,
    "g6.2xlarge": 0.9776,
    "g6.4xlarge": 1.3232,
    "g6.8xlarge": 2.0144,
    "g6.12xlarge": 4.6016,
    "g6.16xlarge": 3.3968,
    "g6.24xlarge": 6.6752,
    "g6.48xlarge": 13.3504,
    "g6e.xlarge": 1.861,
    "g6e.2xlarge": 2.24208,
    "g6e.4xlarge": 3.00424,
    "g6e.8xlarge": 4.52856,
    "g6e.12xlarge": 10.49264,
    "g6e.16xlarge": 7.57719,
    "g6e.24xlarge": 15.06559,
    "g6e.48xlarge": 30.13118,
    "m5.large": 0.096,
    "m6a.large": 0.0864,
    "m6i.large": 0.096,
    "m6i.xlarge": 0.192,
    "m7g.large": 0.0816,
    "m7i-flex.large": 0.09576,
    "m7i.large": 0.1008,
    "m7i.xlarge": 0.2016,
    "t3.medium": 0.0416,
    "t3.large": 0.0832,
}

# type: region: (on demand, spot)
_A100_HOURS: dict[str, dict[str, tuple[float, float | None]]] = {
    "p4d.24xlarge": {
        "ap-northeast-1": (30.09784, 11.705),
        "ap-northeast-2": (30.41028, 12.1201),
        "ap-south-1": (26.3444, None),
        "ap-southeast-2": (28.54493, 10.9579),
        "ca-central-1": (25.25174, None),
        "eu-central-1": (27.43298, 8.9749),
        "eu-west-1": (23.71569, 11.548),
        "us-east-1": (21.957642, 12.4991),
        "us-east-2": (21.95764, 7.66585),
        "us-west-2": (21.95764, 9.53),
    },
    "p4de.24xlarge": {
        "ap-northeast-1": (37.6223, 22.6096),
        "ap-southeast-1": (32.93646, None),
        "eu-central-1": (34.29122, 34.2912),
        "us-east-1": (27.44705, 10.59275),
        "us-west-2": (27.44705, 13.2897),
    },
}

# item, region, unit, dollars, source
_SERVICES: tuple[tuple[str, str, str, float, Source], ...] = (
    ("eks-cluster", EVERYWHERE, "hour", 0.10, EKS_PAGE),
    ("eks-cluster-extended-support", EVERYWHERE, "hour", 0.60, EKS_PAGE),
    ("nat-gateway", "us-east-1", "hour", 0.045, VPC_PAGE),
    ("nat-gateway", "us-east-2", "hour", 0.045, VPC_PAGE),
    ("nat-gateway", "us-west-2", "hour", 0.045, VPC_PAGE),
    ("nat-gateway-data", "us-east-1", "GB", 0.045, VPC_PAGE),
    ("nat-gateway-data", "us-east-2", "GB", 0.045, VPC_PAGE),
    ("nat-gateway-data", "us-west-2", "GB", 0.045, VPC_PAGE),
    ("interface-endpoint-zone", "us-east-1", "hour", 0.01, VPC_PAGE),
    ("interface-endpoint-data", EVERYWHERE, "GB", 0.01, VPC_PAGE),
    ("cross-zone-data", "us-east-1", "GB", 0.01, VPC_PAGE),
    ("kms-key", EVERYWHERE, "month", 1.00, KMS_PAGE),
    ("kms-requests", EVERYWHERE, "10,000 requests", 0.03, KMS_PAGE),
)


def _table() -> dict[tuple[str, str, Purchase], Price]:
    prices: list[Price] = []

    def add(item: str, region: str, purchase: Purchase, unit: str, usd: float, source: Source) -> None:
        prices.append(Price(item=item, region=region, purchase=purchase, unit=unit, usd=usd, source=source))

    for item, regions in _A100_HOURS.items():
        for region, (on_demand, spot) in regions.items():
            add(item, region, "on-demand", "hour", on_demand, SKYPILOT)
            if spot is not None:
                add(item, region, "spot", "hour", spot, SKYPILOT)
    for item, usd in _US_EAST_1_HOURS.items():
        add(item, "us-east-1", "on-demand", "hour", usd, KARPENTER)
    for item, region, unit, usd, source in _SERVICES:
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

"""Prices asked of AWS: the price list, current spot prices, rates of Savings Plans; the dated table for all else.

Reads only: GetProducts and the Savings Plans' rates are answered from us-east-1, spot prices in the region itself.
Invariant: an answer that is not one price is no answer, and then the table's stands; a refusal ends the estimate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

import botocore.exceptions

from eagle3.errors import ConfigError
from infra.catalogue.price import Price, Purchase, Source
from infra.estimate.book import Book

_SECONDS = {"plan-1y": 365 * 86_400, "plan-3y": 3 * 365 * 86_400}
# item: service, filters, end of the usage type, unit of the table
_SERVICES: dict[str, tuple[str, dict[str, str], str, str]] = {
    "nat-gateway": ("AmazonEC2", {"productFamily": "NAT Gateway"}, "NatGateway-Hours", "hour"),
    "interface-endpoint-zone": ("AmazonVPC", {"productFamily": "VpcEndpoint"}, "VpcEndpoint-Hours", "hour"),
    "ebs-gp3": ("AmazonEC2", {"productFamily": "Storage", "volumeApiName": "gp3"}, "EBS:VolumeUsage.gp3", "GB-month"),
    "eks-cluster": ("AmazonEKS", {}, "AmazonEKS-Hours:perCluster", "hour"),
}
_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Clients:
    """boto3 clients."""

    pricing: Any
    """Of us-east-1, where the price list is served."""
    savings_plans: Any
    """Has one endpoint for all regions."""
    ec2: Callable[[str], Any]
    """By region."""


class AskedPrices:
    """A book that asks AWS first; each price once."""

    def __init__(self, clients: Clients, table: Book, now: datetime) -> None:
        self._clients, self._table, self._now = clients, table, now
        self._source = Source(name="AWS, asked now", date=now.date().isoformat())
        self._asked: dict[tuple[str, str, Purchase], Price | None] = {}

    def find(self, item: str, region: str, purchase: Purchase) -> Price | None:
        """AWS's answer, or the table's row where AWS has none; ConfigError where AWS refuses or is out of reach."""
        key = (item, region, purchase)
        if key not in self._asked:
            try:
                self._asked[key] = self._ask(item, region, purchase)
            except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
                raise ConfigError(_refusal(error)) from error
        return self._asked[key] or self._table.find(item, region, purchase)

    def is_live(self, price: Price) -> bool:
        """Whether a price is AWS's own answer."""
        return price.source is self._source

    def _ask(self, item: str, region: str, purchase: Purchase) -> Price | None:
        unit, usd = "hour", None
        if purchase == "spot":
            usd = self._spot(item, region)
        elif purchase != "on-demand":
            usd = self._plan(item, region, _SECONDS[purchase])
        elif item in _SERVICES:
            service, filters, ending, unit = _SERVICES[item]
            usd = self._listed(service, filters, ending, region)
        elif item.startswith("ml."):
            wanted = {"productFamily": "ML Instance", "component": "Hosting", "instanceName": item}
            usd = self._listed("AmazonSageMaker", wanted, f"Host:{item}", region)
        elif "." in item:
            usd = self._listed("AmazonEC2", _LINUX | {"instanceType": item}, f"BoxUsage:{item}", region)
        if usd is None:
            return None
        return Price(item=item, region=region, purchase=purchase, unit=unit, usd=usd, source=self._source)

    def _listed(self, service: str, filters: Mapping[str, str], ending: str, region: str) -> float | None:
        wanted = {**filters, "regionCode": region}
        pages = self._clients.pricing.get_paginator("get_products").paginate(
            ServiceCode=service,
            Filters=[{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()],
        )
        found = {
            usd
            for page in pages
            for product in map(json.loads, page["PriceList"])
            if _ends(product["product"]["attributes"].get("usagetype", ""), ending)
            for usd in _first_tier(product)
        }
        return found.pop() if len(found) == 1 else None

    def _spot(self, item: str, region: str) -> float | None:
        pages = (
            self._clients.ec2(region)
            .get_paginator("describe_spot_price_history")
            .paginate(InstanceTypes=[item], ProductDescriptions=["Linux/UNIX"], StartTime=self._now, EndTime=self._now)
        )
        zones: dict[str, tuple[Any, float]] = {}
        for page in pages:
            for entry in page["SpotPriceHistory"]:
                zone, at = entry["AvailabilityZone"], entry["Timestamp"]
                if zone not in zones or at > zones[zone][0]:
                    zones[zone] = (at, float(entry["SpotPrice"]))
        return median(usd for _, usd in zones.values()) if zones else None

    def _plan(self, item: str, region: str, seconds: int) -> float | None:
        """A Compute Savings Plan for EC2, a SageMaker one for endpoints; nothing paid in advance."""
        endpoint = item.startswith("ml.")
        wanted: dict[str, Any] = {
            "savingsPlanPaymentOptions": ["No Upfront"],
            "savingsPlanTypes": ["SageMaker" if endpoint else "Compute"],
            "products": ["SageMaker" if endpoint else "EC2"],
            "filters": [{"name": "region", "values": [region]}, {"name": "instanceType", "values": [item]}],
        }
        if not endpoint:
            wanted["filters"] += [
                {"name": "tenancy", "values": ["shared"]},
                {"name": "productDescription", "values": ["Linux/UNIX"]},
            ]
        ending = f"Host:{item}" if endpoint else f"BoxUsage:{item}"
        found = {
            float(entry["rate"])
            for entry in self._rates(wanted)
            if entry["savingsPlanOffering"]["durationSeconds"] == seconds and _ends(entry["usageType"], ending)
        }
        return found.pop() if len(found) == 1 else None

    def _rates(self, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
        token: str | None = None
        while True:
            more = {} if token is None else {"nextToken": token}
            page = self._clients.savings_plans.describe_savings_plans_offering_rates(**wanted, **more)
            yield from page["searchResults"]
            token = page.get("nextToken") or None
            if token is None:
                return


def _ends(usage_type: str, ending: str) -> bool:
    """Usage types begin with a short name of the region, in us-east-1 mostly with none."""
    return usage_type == ending or usage_type.endswith(f"-{ending}")


def _first_tier(product: Mapping[str, Any]) -> Iterator[float]:
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            if usd > 0 and dimension.get("beginRange", "0") == "0":
                yield usd


def _refusal(error: Exception) -> str:
    remedy = "configure credentials that may call pricing:GetProducts, ec2:DescribeSpotPriceHistory and "
    remedy += "savingsplans:DescribeSavingsPlansOfferingRates, or drop --live"
    if isinstance(error, botocore.exceptions.ClientError):
        code = error.response.get("Error", {}).get("Code", "an error")
        return f"--live: AWS refused {error.operation_name} with {code}; {remedy}"
    return f"--live: AWS could not be asked: {error}; {remedy}"

"""The price table: dated, sourced, and honest about what it does not hold."""

from __future__ import annotations

from datetime import date

import pytest

from eagle3.errors import ConfigError
from infra.catalogue.gpu_instances import GPU_INSTANCES, offered_zones
from infra.catalogue.prices import PRICES, find_price, price


def test_every_row_has_a_dated_source():
    """No price without the name of its source and a day."""
    for row in PRICES.values():
        assert row.source.name
        assert date.fromisoformat(row.source.date) <= date(2026, 11, 30)
        assert row.usd > 0


def test_every_gpu_type_has_a_price_in_us_east_1():
    """The default region can be budgeted for every type of the catalogue."""
    assert all(find_price(name, "us-east-1") for name in GPU_INSTANCES)


def test_a100_prices_only_where_they_are_offered():
    """A price for a region that does not offer the type would be a mistake of the table."""
    for item, region, _ in PRICES:
        if item in GPU_INSTANCES:
            assert offered_zones(item, region), (item, region)


def test_spot_is_never_dearer_than_on_demand():
    """Spot prices are capped by the on-demand price."""
    spot = [row for row in PRICES.values() if row.purchase == "spot"]
    assert spot
    for row in spot:
        assert row.usd <= price(row.item, row.region).usd * 1.0001


def test_plans_are_cheaper_the_longer_they_bind():
    """A commitment lowers the price, three years more than one; a dearer row would be a mistake of the table."""
    for term, shorter in (("plan-1y", "on-demand"), ("plan-3y", "plan-1y")):
        rows = [row for row in PRICES.values() if row.purchase == term]
        assert rows
        for row in rows:
            above = find_price(row.item, row.region, shorter) or price(row.item, row.region)
            assert row.usd < above.usd, row


def test_endpoints_cost_more_than_the_instances_they_run_on():
    """SageMaker's hour is dearer than EC2's of the same type, and not twice as dear."""
    rows = [row for row in PRICES.values() if row.item.startswith("ml.")]
    assert {"ml.g5.xlarge", "ml.g5.12xlarge"} <= {row.item for row in rows}
    for row in rows:
        below = price(row.item.removeprefix("ml."), row.region)
        assert below.usd < row.usd < 2 * below.usd


def test_missing_price_says_where_there_is_one():
    """A region that no source names is an error with the regions known and the way around; a known one is found."""
    with pytest.raises(ConfigError, match=r"eu-west-1.*known in us-east-1.*max_nodes"):
        price("g5.xlarge", "eu-west-1")
    assert price("g5.xlarge", "us-east-1").usd == 1.006
    assert find_price("g5.xlarge", "eu-west-1") is None


def test_price_everywhere_holds_in_every_region():
    """The control plane costs the same in every region: 0.10 USD an hour, 73 USD a month."""
    assert price("eks-cluster", "eu-west-1").usd_per_month == pytest.approx(73.0)
    with pytest.raises(AssertionError, match="billed by the GB"):
        _ = price("nat-gateway-data", "us-east-1").usd_per_month

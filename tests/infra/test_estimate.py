"""Sums, ranges and levers of an estimate, computed by hand from the price table."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3.errors import ConfigError
from infra.catalogue.price import HOURS_PER_MONTH, Price, Source
from infra.catalogue.prices import find_price, price
from infra.estimate.assumptions import Assumptions
from infra.estimate.book import Table
from infra.estimate.comparison import compare
from infra.estimate.item import Item
from infra.estimate.lines import Estimate, Line, priced
from infra.estimate.public_range import RANGES, PublicRange, span_within
from infra.estimate.stack import Question, estimate
from infra.estimate.tokens import usd_per_million_tokens
from infra.settings.load import load_settings

TODAY = date(2026, 12, 1)
P4D, P4DE_SPOT = 21.957642, 10.59275


class Fixed:
    """A book of a few prices, the same in every region."""

    def __init__(self, **prices):
        self.prices = prices

    def find(self, item, region, purchase):
        usd = self.prices.get(f"{item} {purchase}", self.prices.get(item))
        source = Source(name="test", date="2026-12-01")
        return usd and Price(item=item, region=region, purchase=purchase, unit="hour", usd=usd, source=source)


def question(stack, overrides="", **assumptions):
    settings = load_settings("dev", overrides)
    return Question(stack=stack, settings=settings, assumptions=Assumptions(**assumptions), today=TODAY)


def made(stack, overrides="", **assumptions):
    return estimate(question(stack, overrides, **assumptions), Table())


def main_usd(found):
    """Dollars of the lines that machines serve on."""
    return sum(line.usd for line in found.lines if line.item.main)


def test_small_is_one_instance_all_month():
    """One ml.g5.xlarge for 730 hours is nearly all of the small stack's bill, which is within the published range."""
    found = made("small")
    assert main_usd(found) == pytest.approx(price("ml.g5.xlarge", "us-east-1").usd * 730)
    assert main_usd(found) < found.usd < 1.03 * main_usd(found)
    assert RANGES["small"].verdict(found.usd) == "within"


def test_medium_is_two_instances_all_month():
    """Two ml.g5.12xlarge at 7.09 USD: 10,351 USD and a few for the rest, within the published range."""
    found = made("medium")
    assert main_usd(found) == pytest.approx(2 * 7.09 * 730)
    assert RANGES["medium"].verdict(found.usd) == "within"


def test_groups_add_up_to_the_total():
    """No line is outside of the groups, and none is counted twice."""
    for stack in ("small", "medium", "large"):
        found = made(stack)
        assert sum(found.subtotal(group) for group in found.groups) == pytest.approx(found.usd)
        assert sum(len(found.of(group)) for group in found.groups) == len(found.lines)


def test_hours_scale_machines_and_nothing_that_stays():
    """Half the hours halve the machines' cost; endpoints of the VPC, keys and the control plane stay."""
    whole, half = made("large"), made("large", hours_per_day=12.0)
    assert main_usd(half) == pytest.approx(main_usd(whole) / 2)
    for name in ("interface endpoints", "KMS keys", "EKS control plane", "system nodes: m6i.large"):
        [before], [after] = ([line.usd for line in found.lines if line.item.name == name] for found in (whole, half))
        assert before == after > 0


def test_spot_share_divides_the_machines():
    """0.25 of four machines is one at the spot price of the pool's cheapest type, three on demand."""
    found = made("large", machines=4, spot_share=0.25)
    assert main_usd(found) == pytest.approx(730 * (3 * P4D + 1 * P4DE_SPOT))
    assert [line.item.purchase for line in found.lines if line.item.main] == ["on-demand", "spot"]


def test_pool_without_spot_stays_on_demand_and_one_with_spot_alone_is_all_spot():
    """A share is asked of pools that may buy both; a pool's capacity types go before it."""
    narrow = "large.pools=[{capacity_types: [%s], narrow_reason: 'a test of the estimate'}]"
    on_demand = made("large", narrow % "on-demand", machines=1, spot_share=1.0)
    assert main_usd(on_demand) == pytest.approx(730 * P4D)
    spot = made("large", narrow % "spot", machines=1, spot_share=0.0)
    assert main_usd(spot) == pytest.approx(730 * P4DE_SPOT)


def test_replicas_over_many_gpus_need_machines_that_hold_them():
    """A cheap type that has too few GPUs for a replica is not what the pool would start."""
    pools = "large.pools=[{instance_types: [g5.xlarge, g5.48xlarge], capacity_types: [spot, on-demand]}]"
    small = made("large", pools, machines=1, spot_share=0.0)
    wide = made("large", f"{pools}; large.deployment.engine.tensor_parallel=8", machines=1, spot_share=0.0)
    names = [[line.item.price for line in found.lines if line.item.main] for found in (small, wide)]
    assert names == [["g5.xlarge"], ["g5.48xlarge"]]


def test_plans_cover_what_is_not_spot_and_are_paid_for_all_hours():
    """A plan lowers the hourly price; eight hours a day on demand cost less than a plan, which bills 24."""
    rate = price("p4d.24xlarge", "us-east-1", "plan-1y").usd
    whole = made("large", machines=2, spot_share=0.5, commitment="1y")
    assert main_usd(whole) == pytest.approx(730 * (rate + P4DE_SPOT))
    short = made("large", machines=1, spot_share=0.0, commitment="1y", hours_per_day=8.0)
    assert main_usd(short) == pytest.approx(730 * rate)
    assert main_usd(short) > main_usd(made("large", machines=1, spot_share=0.0, hours_per_day=8.0))


def test_plan_without_a_public_rate_is_counted_on_demand_and_said():
    """SageMaker's plans have no public table: the line stays on demand, by the schedule, with a remark."""
    found = made("small", commitment="3y", hours_per_day=12.0)
    assert main_usd(found) == pytest.approx(main_usd(made("small", hours_per_day=12.0)))
    assert any("no public rate of a 3y plan for ml.g5.xlarge" in remark for remark in found.remarks)
    assert made("small").remarks == ()


def test_unknown_prices_add_nothing_and_are_named():
    """A line without a price is in `lacking`, not in the sum; one with an unknown quantity too."""
    found = made("small", "small.endpoint={mode: serverless}")
    assert {"flow logs (REJECT) to s3", "serverless containers, 6144 MB"} <= set(found.lacking)
    assert found.usd == pytest.approx(sum(line.usd for line in found.lines if line.usd is not None))
    assert found.usd > 0


def test_region_without_a_price_for_the_machines_is_refused():
    """An estimate that lacks what the stack runs on would mislead: one error with the remedies, no number."""
    with pytest.raises(ConfigError, match=r"ml\.g5\.xlarge in eu-west-1.*--live"):
        made("small", "region=eu-west-1")
    assert made("small", "region=us-east-1").usd > 0


def test_endpoints_are_not_sold_as_spot():
    """A spot share above 0 is refused for SageMaker; 0 and none are not."""
    with pytest.raises(ConfigError, match="--spot-share must be 0 for medium"):
        made("medium", spot_share=0.5)
    assert made("medium", spot_share=0.0).usd == made("medium").usd


def test_settings_that_the_stack_refuses_are_refused_here():
    """What cannot be deployed has no price: a type that the region does not have."""
    with pytest.raises(ConfigError, match="does not offer p4de"):
        made("large", "region=us-east-2")


def test_extended_support_costs_six_times_the_control_plane():
    """A version kept after its standard support is billed at the higher rate."""
    late = "large.cluster={kubernetes_version: '1.33', calendar_override: 'waiting for a driver'}"
    late += "; large.components.tools.kubectl={version: 1.33.1, sha256: '" + "0" * 64 + "'}"
    names = {line.item.name: line.usd for line in made("large", late).lines}
    assert names["EKS control plane, extended support"] == pytest.approx(6 * 73.0)


def test_edge_is_billed_only_where_there_is_one():
    """No line of the group edge without the edge."""
    assert "edge" not in made("large").groups


def test_sleeping_endpoint_is_estimated_awake():
    """An asynchronous endpoint may have no instance; its hours decide the cost, so one is counted."""
    overrides = "small.endpoint={mode: async, weights: {source: s3, s3_prefix: models/a/}};"
    overrides += "small.deployment={target: target, draft: draft}"
    found = made("small", overrides, hours_per_day=2.0)
    assert main_usd(found) == pytest.approx(price("ml.g5.xlarge", "us-east-1").usd * 730 / 12)


def test_units_are_multiplied_as_they_are_billed():
    """By the hour, by the month, and by use; a monthly price in scheduled hours counts in part."""
    source = Source(name="test", date="2026-12-01")

    def usd(unit, hours=HOURS_PER_MONTH):
        item = Item(group="compute", name="x", price="x", quantity=3)
        priced_at = Price(item="x", region="r", purchase="on-demand", unit=unit, usd=2.0, source=source)
        return Line(item=item, price=priced_at, hours=hours).usd

    assert usd("hour") == 3 * 2 * 730
    assert usd("month") == 6
    assert usd("month", hours=365) == 3
    assert usd("GB") == usd("GB", hours=1) == 6


def test_nothing_costs_nothing():
    """An estimate without lines is 0 and lacks nothing."""
    empty = Estimate(region="us-east-1", lines=())
    assert (empty.usd, empty.lacking, empty.groups) == (0, (), ())


def test_four_p4d_on_demand_exceed_the_range_and_the_levers_say_when_they_do_not():
    """64,116 USD of machines alone; the share and the hours named really cost the bounds, and no less."""
    asked = question("large")
    compared = compare(asked, estimate(asked, Table()).usd, Table())
    text = "\n".join(compared.sentences)
    assert "4 machines on demand, all hours: 64,6" in text
    assert "above the range: it cannot hold there" in text
    assert "spot share of 14% to 74%" in text
    assert "lets Karpenter start 2 machines at once" in text
    bounds = RANGES["large"]
    steady = asked.asking(machines=4, spot_share=0.0)
    share = span_within(
        lambda value: estimate(steady.asking(spot_share=value), Table()).usd, bounds, least=0.0, most=1.0
    )
    assert estimate(steady.asking(spot_share=share.least), Table()).usd == pytest.approx(bounds.high)
    assert estimate(steady.asking(spot_share=share.most), Table()).usd == pytest.approx(bounds.low)


def test_budget_that_four_machines_need_is_enough_and_a_dollar_less_is_not():
    """The budget named in the comparison lets Karpenter start four machines."""
    asked = question("large")
    [sentence] = [text for text in compare(asked, 0, Table()).sentences if "lets Karpenter" in text]
    needed = int(sentence.rsplit(" ", 1)[1].replace(",", ""))

    def machines(budget):
        found = estimate(question("large", f"large.budget.monthly_usd={budget}"), Table())
        return sum(line.item.quantity for line in found.lines if line.item.main)

    assert machines(needed) == pytest.approx(4)
    assert machines(needed - 2) == pytest.approx(3)


def test_comparison_of_endpoints_names_hours_and_no_spot():
    """Endpoints have hours as a lever, and no spot."""
    asked = question("medium")
    compared = compare(asked, estimate(asked, Table()).usd, Table())
    assert compared.verdict == "within"
    text = "\n".join(compared.sentences)
    assert "spot share" not in text
    assert "it holds at 18.5 to 24.0 hours a day" in text
    assert "Savings Plans of 1y: no public rate" in text


@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1e5))
def test_span_is_where_a_straight_line_is_within(first, last, bound, other):
    """For any line and bounds: within the span the total is within the range, outside of it is not."""
    bounds = PublicRange(low=min(bound, other), high=max(bound, other), machines=1)

    def total(lever):
        return first + (last - first) * lever

    span = span_within(total, bounds, least=0.0, most=1.0)
    slack = 1e-6 * (1 + max(first, last, bounds.high))
    for lever in (0.0, 0.25, 0.5, 0.75, 1.0):
        inside = span is not None and span.least <= lever <= span.most
        if inside:
            assert bounds.low - slack <= total(lever) <= bounds.high + slack
        else:
            assert not bounds.low + slack < total(lever) < bounds.high - slack


def test_comparison_without_machines_and_with_spot_alone_says_so():
    """A serverless endpoint has no machine to compare; a pool of spot alone is not called on demand."""
    serverless = question("small", "small.endpoint={mode: serverless}")
    [sentence] = compare(serverless, 30.0, Table()).sentences
    assert "nothing here does" in sentence
    pools = "large.pools=[{capacity_types: [spot], narrow_reason: 'a test of the estimate'}]"
    first, *others = compare(question("large", pools), 0, Table()).sentences
    assert first.startswith("4 machines spot, all hours: 31,4")
    assert not any("spot share" in text for text in others)


def test_million_tokens_at_a_rate():
    """1,000 tokens a second for 730 hours are 2,628 million; at 26,280 USD a million cost 10 USD."""
    assert usd_per_million_tokens(26_280, 1000, 730) == pytest.approx(10.0)
    assert usd_per_million_tokens(26_280, 1000, 365) == pytest.approx(20.0)


def test_price_that_is_missing_is_none_and_no_guess():
    """The book has what the table has, and nothing for a neighbouring region."""
    assert Table().find("nat-gateway", "eu-west-1", "on-demand") is None
    assert Table().find("nat-gateway", "us-east-1", "on-demand") == find_price("nat-gateway", "us-east-1")


def test_main_item_without_quantity_needs_no_price():
    """A part that is bought for no hour does not need a price."""
    none = Item(group="compute", name="x", price="x", quantity=0, main=True)
    assert priced([none], region="r", hours=730, book=Fixed()).usd == 0
    with pytest.raises(ConfigError, match="no public on-demand price of x in r"):
        priced([Item(group="compute", name="x", price="x", quantity=1, main=True)], region="r", hours=1, book=Fixed())

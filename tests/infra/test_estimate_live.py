"""`--live`: what is asked of AWS, which answers count, and what a refusal says. botocore checks calls and answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import boto3
import pytest
from botocore.exceptions import NoCredentialsError
from botocore.stub import ANY, Stubber

from eagle3.errors import ConfigError
from infra.estimate.book import Table
from infra.estimate.live import AskedPrices, Clients

NOW = datetime(2026, 12, 1, tzinfo=UTC)
KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}


class Aws:
    """Stubbed clients; `book` asks them."""

    def __init__(self):
        self.clients = {name: boto3.client(name, region_name="us-east-1", **KEYS) for name in ("pricing", "ec2")}
        self.clients["savingsplans"] = boto3.client("savingsplans", region_name="us-east-1", **KEYS)
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        self.regions = []
        for stub in self.stubs.values():
            stub.activate()
        self.book = AskedPrices(
            Clients(pricing=self.clients["pricing"], savings_plans=self.clients["savingsplans"], ec2=self._ec2),
            Table(),
            NOW,
        )

    def _ec2(self, region):
        self.regions.append(region)
        return self.clients["ec2"]


@pytest.fixture
def aws():
    found = Aws()
    yield found
    for stub in found.stubs.values():
        stub.assert_no_pending_responses()


def product(usage_type, *usd, unit="Hrs"):
    """One entry of the price list."""
    dimensions = {
        str(number): {"unit": unit, "beginRange": "0" if number == 0 else "1024", "pricePerUnit": {"USD": str(value)}}
        for number, value in enumerate(usd)
    }
    return json.dumps(
        {
            "product": {"attributes": {"usagetype": usage_type}},
            "terms": {"OnDemand": {"a": {"priceDimensions": dimensions}}},
        }
    )


def rate(usage_type, usd, seconds):
    """One rate of a Savings Plan."""
    return {
        "savingsPlanOffering": {"planType": "Compute", "paymentOption": "No Upfront", "durationSeconds": seconds},
        "rate": str(usd),
        "unit": "Hrs",
        "usageType": usage_type,
    }


def filters(call):
    return {entry["Field"]: entry["Value"] for entry in call["Filters"]}


def test_instance_is_asked_for_as_linux_shared_on_demand(aws):
    """The call narrows to one product; the answer replaces the table's price, is marked, and is asked for once."""
    aws.stubs["pricing"].add_response(
        "get_products",
        {"PriceList": [product("BoxUsage:p4d.24xlarge", 20.5), product("UnusedBox:p4d.24xlarge", 9)]},
        {"ServiceCode": "AmazonEC2", "Filters": ANY},
    )
    found = aws.book.find("p4d.24xlarge", "us-east-1", "on-demand")
    assert (found.usd, found.unit, found.source.date) == (20.5, "hour", "2026-12-01")
    assert aws.book.is_live(found)
    assert aws.book.find("p4d.24xlarge", "us-east-1", "on-demand") is found


def test_calls_carry_region_and_type(aws, monkeypatch):
    """Filters of the four kinds of calls: instance, endpoint, service."""
    asked = []

    class Pages:
        def paginate(self, **call):
            asked.append((call["ServiceCode"], filters(call)))
            return [{"PriceList": []}]

    monkeypatch.setattr(aws.clients["pricing"], "get_paginator", lambda name: Pages())
    for item in ("g5.xlarge", "ml.g5.xlarge", "nat-gateway"):
        aws.book.find(item, "eu-west-1", "on-demand")
    services, fields = zip(*asked, strict=True)
    assert services == ("AmazonEC2", "AmazonSageMaker", "AmazonEC2")
    assert all(values["regionCode"] == "eu-west-1" for values in fields)
    assert fields[0]["instanceType"] == "g5.xlarge"
    assert (fields[0]["operatingSystem"], fields[0]["tenancy"]) == ("Linux", "Shared")
    assert (fields[1]["instanceName"], fields[1]["component"]) == ("ml.g5.xlarge", "Hosting")


def test_usage_types_of_other_regions_have_a_prefix(aws):
    """EU-NatGateway-Hours is a NAT gateway's hour; RegionalNatGateway-Hours is another product."""
    entries = [product("EU-NatGateway-Hours", 0.048), product("EU-RegionalNatGateway-Hours", 0.05)]
    aws.stubs["pricing"].add_response("get_products", {"PriceList": entries})
    assert aws.book.find("nat-gateway", "eu-west-1", "on-demand").usd == 0.048


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [product("NatGateway-Hours", 0.0)],
        [product("NatGateway-Hours", 0.04), product("USE1-NatGateway-Hours", 0.05)],
    ],
    ids=["none", "free", "two"],
)
def test_answer_that_is_not_one_price_leaves_the_tables(aws, entries):
    """No product, one that costs nothing, or two prices: the dated row stands, unmarked."""
    aws.stubs["pricing"].add_response("get_products", {"PriceList": entries})
    found = aws.book.find("nat-gateway", "us-east-1", "on-demand")
    assert found.usd == 0.045
    assert not aws.book.is_live(found)


def test_first_tier_counts(aws):
    """Of a price in tiers it is the first."""
    entry = product("VpcEndpoint-Hours", 0.011, 0.006)
    aws.stubs["pricing"].add_response("get_products", {"PriceList": [entry]})
    assert aws.book.find("interface-endpoint-zone", "us-east-1", "on-demand").usd == 0.011


def test_items_that_nobody_asks_for_come_from_the_table(aws):
    """Small services are not worth a call: nothing is asked, the table answers."""
    assert aws.book.find("cloudwatch-dashboard", "us-east-1", "on-demand").usd == 3.0


def test_spot_is_the_median_of_the_zones_now(aws):
    """The newest price of each zone, in the region itself."""
    entries = [
        {"AvailabilityZone": zone, "SpotPrice": usd, "Timestamp": datetime(2026, 11, day, tzinfo=UTC)}
        for zone, usd, day in (("a", "9.0", 30), ("a", "4.0", 1), ("b", "11.0", 30), ("c", "13.0", 30))
    ]
    aws.stubs["ec2"].add_response("describe_spot_price_history", {"SpotPriceHistory": entries})
    assert aws.book.find("p4d.24xlarge", "us-west-2", "spot").usd == 11.0
    assert aws.regions == ["us-west-2"]


def test_plans_for_ec2_are_compute_plans_of_the_term(aws):
    """Nothing paid in advance; of the answers the one of the term counts, over pages."""
    call = {
        "savingsPlanPaymentOptions": ["No Upfront"],
        "savingsPlanTypes": ["Compute"],
        "products": ["EC2"],
        "filters": ANY,
    }
    year = 365 * 86_400
    pages = [
        {"searchResults": [rate("BoxUsage:p4d.24xlarge", 15.0, year)], "nextToken": "more"},
        {"searchResults": [rate("BoxUsage:p4d.24xlarge", 11.0, 3 * year), rate("Other:p4d.24xlarge", 1.0, 3 * year)]},
    ]
    aws.stubs["savingsplans"].add_response("describe_savings_plans_offering_rates", pages[0], call)
    more = {**call, "nextToken": "more"}
    aws.stubs["savingsplans"].add_response("describe_savings_plans_offering_rates", pages[1], more)
    assert aws.book.find("p4d.24xlarge", "us-east-1", "plan-3y").usd == 11.0


def test_plans_for_endpoints_are_sagemakers(aws):
    """A Compute Savings Plan does not cover SageMaker, so its own plan is asked for."""
    call = {
        "savingsPlanPaymentOptions": ["No Upfront"],
        "savingsPlanTypes": ["SageMaker"],
        "products": ["SageMaker"],
        "filters": ANY,
    }
    results = [rate("USE1-Host:ml.g5.xlarge", 1.1, 365 * 86_400), rate("USE1-Train:ml.g5.xlarge", 1.0, 365 * 86_400)]
    aws.stubs["savingsplans"].add_response("describe_savings_plans_offering_rates", {"searchResults": results}, call)
    assert aws.book.find("ml.g5.xlarge", "us-east-1", "plan-1y").usd == 1.1


def test_refusal_is_one_line_with_the_permissions(aws):
    """A denied call ends the estimate: no number that is half of one kind and half of another."""
    aws.stubs["pricing"].add_client_error("get_products", "AccessDeniedException", http_status_code=400)
    with pytest.raises(ConfigError, match=r"refused GetProducts with AccessDeniedException; .*pricing:GetProducts"):
        aws.book.find("p4d.24xlarge", "us-east-1", "on-demand")


def test_no_credentials_are_one_line(aws, monkeypatch):
    """What boto3 says, with the remedy."""

    def nobody(name):
        raise NoCredentialsError

    monkeypatch.setattr(aws.clients["pricing"], "get_paginator", nobody)
    with pytest.raises(ConfigError, match="could not be asked: Unable to locate credentials; configure credentials"):
        aws.book.find("p4d.24xlarge", "us-east-1", "on-demand")

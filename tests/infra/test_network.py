"""VPC, NAT and flow logs: what the settings refuse, and what is synthesized."""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv4Network

import pytest
from pydantic import ValidationError

from eagle3.errors import ConfigError
from foundation_doubles import default, everything
from infra.constructs.foundation.network import Network, NetworkProps
from infra.settings.network import NetworkSettings, check_zones
from infra_doubles import SITE, synthesize


def network(**settings):
    return synthesize(
        lambda scope: Network(scope, "Network", NetworkProps(site=SITE, settings=NetworkSettings(**settings)))
    )


def refusal(**settings):
    """The one error that the settings give."""
    with pytest.raises(ValidationError) as caught:
        NetworkSettings(**settings)
    [error] = caught.value.errors()
    return error["msg"]


def ways_out(stack):
    return [route for route in stack.all("aws_route") if route["destination_cidr_block"] == "0.0.0.0/0"]


def test_defaults_are_cheap():
    """Two zones, no NAT, and flow logs that are rarely written: nothing that is billed by the hour."""
    settings = NetworkSettings()
    assert (settings.zone_total, settings.nat) == (2, "none")
    flow_logs = settings.flow_logs
    assert (flow_logs.enabled, flow_logs.destination, flow_logs.traffic_type) == (True, "s3", "REJECT")
    assert flow_logs.aggregation_s == 600


@pytest.mark.parametrize(
    ("cidr", "zones"),
    [("10.0.0.0/16", 6), ("172.16.0.0/17", 6), ("192.168.0.0/18", 3), ("100.64.0.0/16", 2), ("172.18.0.0/16", 2)],
)
def test_private_ranges_are_taken(cidr, zones):
    """Every private range of RFC 1918 and RFC 6598 serves, at the sizes that have room."""
    assert NetworkSettings(cidr=cidr, zone_count=zones).network == IPv4Network(cidr)


@pytest.mark.parametrize(
    ("cidr", "message"),
    [
        ("ten", "must be an IPv4 range such as"),
        ("10.0.0.0/40", "must be an IPv4 range such as"),
        ("fd00::/48", "must be an IPv4 range such as"),
        ("10.40.0.7/16", r"must begin at the start of its range: write 10.40.0.0/16"),
        ("8.8.0.0/16", "must lie in one of the private ranges 10.0.0.0/8"),
        ("172.32.0.0/16", "must lie in one of the private ranges"),
        ("172.17.0.0/18", "must not overlap 172.17.0.0/16"),
        ("10.0.0.0/8", "must be a /16 or smaller"),
        ("10.0.0.0/19", "too small for 2 zones, each with a /20 for nodes; give a /18 or larger"),
        ("10.0.0.0/24", "too small for 2 zones"),
        ("10.0.0.0/28", "too small for 2 zones"),
    ],
)
def test_bad_ranges_are_refused(cidr, message):
    """A range that is none, not private, too large or too small gives one error that says what to write."""
    assert message in refusal(cidr=cidr)


def test_range_too_small_for_the_zones():
    """A range that does for three zones is refused for four, with the size that does."""
    NetworkSettings(cidr="10.0.0.0/18", zone_count=3)
    assert "give a /17 or larger, or fewer zones" in refusal(cidr="10.0.0.0/18", zone_count=4)


def test_overlap_with_a_peer_is_refused():
    """A range that a connected network uses is refused, named with the other; one beside it is not."""
    NetworkSettings(cidr="10.40.0.0/16", peer_cidrs=["10.41.0.0/16", "192.168.7.0/24"])
    assert "10.40.0.0/16 overlaps 10.40.128.0/20" in refusal(cidr="10.40.0.0/16", peer_cidrs=["10.40.128.0/20"])
    assert "must be an IPv4 range" in refusal(peer_cidrs=["office"])


@pytest.mark.parametrize("count", [1, 0, 7])
def test_number_of_zones(count):
    """One zone is refused: EKS and load balancers need two; so are more than the plan has room for."""
    refusal(zone_count=count)


@pytest.mark.parametrize(
    ("zones", "message"),
    [
        (["us-east-1a"], "must name 2 to 6 different zones"),
        (["us-east-1a", "us-east-1a"], "must name 2 to 6 different zones"),
        (["us-east-1a", "eu-west-1b"], "must be zones of one region"),
        (["us-east-1a", "us-east-1-bos-1a"], "each must be the name of an availability zone"),
        (["use1-az1", "use1-az2"], "each must be the name of an availability zone"),
    ],
)
def test_bad_zones_are_refused(zones, message):
    """One zone, a zone twice, of two regions, a local zone or an id in place of a name: one error each."""
    assert message in refusal(zones=zones)


def test_zones_of_another_region_are_refused():
    """Zones are compared with the region of the stack, once that is known."""
    settings = NetworkSettings(zones=["eu-west-1a", "eu-west-1c"])
    check_zones(settings, "eu-west-1")
    check_zones(NetworkSettings(), "us-east-1")
    assert settings.zone_total == 2
    with pytest.raises(ConfigError, match="must be zones of the region us-east-1; got eu-west-1a, eu-west-1c"):
        check_zones(settings, "us-east-1")


def test_subnets_of_nodes():
    """Private subnets: one a zone, in its zone, /20 or larger, without public addresses."""
    stack = network()
    vpc = IPv4Network(stack.only("aws_vpc")["cidr_block"])
    for zone in SITE.zones:
        subnets = [subnet for subnet in stack.all("aws_subnet") if subnet["availability_zone"] == zone]
        assert len(subnets) == 2
        assert any(IPv4Network(subnet["cidr_block"]).prefixlen <= 20 for subnet in subnets)
        assert all(IPv4Network(subnet["cidr_block"]).subnet_of(vpc) for subnet in subnets)
        assert not any(subnet["map_public_ip_on_launch"] for subnet in subnets)


def test_vpc_resolves_private_names():
    """Private DNS of endpoints needs both switches of the VPC."""
    vpc = network().only("aws_vpc")
    assert vpc["enable_dns_support"] is True
    assert vpc["enable_dns_hostnames"] is True


def test_default_security_group_is_closed():
    """The VPC's own security group is taken over and has no rule."""
    stack = network()
    group = stack.only("aws_default_security_group")
    assert stack.follow(group["vpc_id"]).kind == "aws_vpc"
    assert not group.get("ingress")
    assert not group.get("egress")


def test_without_nat_there_is_no_way_out():
    """No NAT: no internet gateway, no public address, no default route."""
    stack = network()
    for kind in ("aws_internet_gateway", "aws_nat_gateway", "aws_eip", "aws_route"):
        assert stack.all(kind) == []


@pytest.mark.parametrize(("nat", "gateways"), [("single", 1), ("per-zone", 2)])
def test_nat(nat, gateways):
    """Every private table leads out through a NAT gateway with an address, in its own zone where each zone has one."""
    stack = network(nat=nat)
    assert len(stack.all("aws_nat_gateway")) == gateways
    for gateway in stack.all("aws_nat_gateway"):
        assert stack.follow(gateway["allocation_id"])["domain"] == "vpc"
    to_nat = [route for route in ways_out(stack) if route.get("nat_gateway_id")]
    assert len({stack.follow(route["route_table_id"]).id for route in to_nat}) == 2
    for route in to_nat:
        gateway = stack.follow(route["nat_gateway_id"])
        [inside] = [
            stack.follow(link["subnet_id"])
            for link in stack.all("aws_route_table_association")
            if stack.follow(link["route_table_id"]).id == stack.follow(route["route_table_id"]).id
        ]
        same_zone = stack.follow(gateway["subnet_id"])["availability_zone"] == inside["availability_zone"]
        assert same_zone or nat == "single"
    [to_internet] = [route for route in ways_out(stack) if route.get("gateway_id")]
    assert stack.follow(to_internet["gateway_id"]).kind == "aws_internet_gateway"


def test_nat_leaves_subnets_in_place():
    """Switching NAT on adds subnets and moves none, and the intra subnets still have no way out."""
    before, after = network(), network(nat="single")
    ranges = {subnet["cidr_block"] for subnet in after.all("aws_subnet")}
    assert {subnet["cidr_block"] for subnet in before.all("aws_subnet")} < ranges
    led_out = {after.follow(route["route_table_id"]).id for route in ways_out(after)}
    intra = [
        after.follow(link["route_table_id"]).id
        for link in after.all("aws_route_table_association")
        if "intra" in after.follow(link["subnet_id"])["tags"]["Name"]
    ]
    assert len(intra) == 2
    assert not led_out & set(intra)


def test_cdn_origin_is_a_gateway_without_a_route():
    """CloudFront's way to a private load balancer wants an internet gateway on the VPC; nothing is routed to it."""
    props = NetworkProps(site=SITE, settings=NetworkSettings(), cdn_origin=True)
    stack = synthesize(lambda scope: Network(scope, "Network", props))
    assert stack.follow(stack.only("aws_internet_gateway")["vpc_id"]).kind == "aws_vpc"
    assert ways_out(stack) == []


def test_discovery_tags():
    """Karpenter and load balancers find the private subnets, and only those, where there is a cluster."""
    tagged = [subnet for subnet in default().all("aws_subnet") if "karpenter.sh/discovery" in subnet["tags"]]
    assert len(tagged) == len(SITE.zones)
    for subnet in tagged:
        assert subnet["tags"]["karpenter.sh/discovery"] == "eagle3-test"
        assert subnet["tags"]["kubernetes.io/role/internal-elb"] == "1"
        assert IPv4Network(subnet["cidr_block"]).prefixlen <= 20
    assert not any("karpenter.sh/discovery" in subnet["tags"] for subnet in network().all("aws_subnet"))


def test_flow_logs_to_the_archive():
    """Flow log → bucket's policy → bucket: made after the delivery service was let in, and cheap in aggregation."""
    stack = default()
    log = stack.only("aws_flow_log")
    assert stack.follow(log["vpc_id"]).kind == "aws_vpc"
    assert (log["log_destination_type"], log["traffic_type"]) == ("s3", "REJECT")
    assert log["max_aggregation_interval"] == 600
    policy = stack.follow(log["log_destination"])
    assert policy.kind == "aws_s3_bucket_policy"
    assert "-audit-" in stack.follow(policy["bucket"])["bucket"]
    statements = {statement["Sid"]: statement for statement in policy.policy()}
    write = statements["AWSLogDeliveryWrite"]
    assert write["Principal"] == {"Service": "delivery.logs.amazonaws.com"}
    assert write["Condition"]["StringEquals"]["aws:SourceAccount"] == SITE.account_id
    assert statements["AWSLogDeliveryAclCheck"]["Action"] == ["s3:GetBucketAcl"]
    assert stack.all("aws_cloudwatch_log_group") == []


def test_flow_logs_to_a_log_group():
    """D26: flow log → group → key whose pattern has the group's name; the role writes to that group and no other."""
    stack = everything()
    log = stack.only("aws_flow_log")
    group = stack.follow(log["log_destination"])
    assert group["retention_in_days"] >= 365
    key = stack.follow(group["kms_key_id"])
    [statement] = [one for one in key.policy() if one["Sid"] == "LogGroups"]
    pattern = statement["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    assert "${aws_cloudwatch_log_group" not in pattern
    assert fnmatchcase(SITE.arn("logs", f"log-group:{group['name']}"), pattern)

    role = stack.follow(log["iam_role_arn"])
    [trust] = role.policy("assume_role_policy")
    assert trust["Principal"] == {"Service": "vpc-flow-logs.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": SITE.account_id}
    [policy] = [one for one in stack.all("aws_iam_role_policy") if stack.follow(one["role"]).id == role.id]
    [write] = policy.policy()
    assert stack.follow(write["Resource"]).id == group.id
    assert f"{policy.kind}.{policy.id}" in log["depends_on"]

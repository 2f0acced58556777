"""Private ways to AWS: the lists are complete, and the ways are no way out."""

from __future__ import annotations

import json

import pytest

from foundation_doubles import default
from infra.catalogue.interface_services import INTERFACE_SERVICES, cluster_services, endpoint_services
from infra.constructs.foundation.vpc_endpoints import VpcEndpoints, VpcEndpointsProps
from infra_doubles import SITE, synthesize

# What nodes, Karpenter, Pod Identity and controllers call, by the documentation of EKS and Karpenter.
PRIVATE_CLUSTER = {
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "sts",
    "ssm",
    "sqs",
    "eks",
    "eks-auth",
    "kms",
    "logs",
    "monitoring",
    "secretsmanager",
}


def endpoints(services, **props):
    def build(scope):
        VpcEndpoints(
            scope,
            "VpcEndpoints",
            VpcEndpointsProps(
                site=SITE,
                vpc_id="vpc-1",
                cidr="10.40.0.0/16",
                route_table_ids=["rtb-1"],
                subnet_ids=["subnet-1", "subnet-2"],
                services=services,
                **props,
            ),
        )

    return synthesize(build)


def interfaces(stack):
    return [one for one in stack.all("aws_vpc_endpoint") if one["vpc_endpoint_type"] == "Interface"]


def gateway(stack):
    [found] = [one for one in stack.all("aws_vpc_endpoint") if one["vpc_endpoint_type"] == "Gateway"]
    return found


def test_cluster_without_nat_has_every_endpoint():
    """D4: in a VPC without NAT every service of a private cluster has an endpoint, S3 through its gateway."""
    stack = default()
    assert stack.all("aws_nat_gateway") == []
    prefix = f"com.amazonaws.{SITE.region}."
    names = {one["service_name"].removeprefix(prefix) for one in interfaces(stack)}
    assert names == PRIVATE_CLUSTER
    assert gateway(stack)["service_name"] == f"{prefix}s3"


def test_interface_endpoints_answer_under_the_services_names():
    """D5: every interface endpoint, eks-auth among them, has private DNS and one subnet in each zone."""
    stack = default()
    assert any(one["service_name"].endswith(".eks-auth") for one in interfaces(stack))
    for one in interfaces(stack):
        assert one["private_dns_enabled"] is True
        zones = [subnet["availability_zone"] for subnet in stack.references(one["subnet_ids"])]
        assert sorted(zones) == sorted(SITE.zones)


def test_endpoints_are_asked_from_the_vpc_only():
    """One security group: HTTPS from the VPC's range, nothing else in, nothing out."""
    stack = default()
    group = stack.only("aws_security_group")
    rule = stack.only("aws_vpc_security_group_ingress_rule")
    assert stack.follow(rule["security_group_id"]).id == group.id
    assert (rule["ip_protocol"], rule["from_port"], rule["to_port"]) == ("tcp", 443, 443)
    assert rule["cidr_ipv4"] == stack.only("aws_vpc")["cidr_block"]
    assert not group.get("egress")
    assert stack.all("aws_vpc_security_group_egress_rule") == []
    assert {stack.follow(one["security_group_ids"]).id for one in interfaces(stack)} == {group.id}


def test_s3_gateway_is_in_every_private_table():
    """Private and intra subnets reach S3 without an address of the internet."""
    stack = default()
    tables = {table.id for table in stack.references(gateway(stack)["route_table_ids"])}
    assert tables == {table.id for table in stack.all("aws_route_table")}


def test_s3_gateway_is_no_way_out():
    """Only buckets of the account, and those of image layers and packages for reading, can be reached."""
    statements = {one["Sid"]: one for one in gateway(default()).policy()}
    assert set(statements) == {"OwnBuckets", "ImageLayersAndPackages"}
    assert statements["OwnBuckets"]["Condition"] == {"StringEquals": {"aws:ResourceAccount": SITE.account_id}}
    assert not [action for action in statements["OwnBuckets"]["Action"] if "*" in action]
    public = statements["ImageLayersAndPackages"]
    assert public["Action"] == ["s3:GetObject"]
    assert f"arn:aws:s3:::prod-{SITE.region}-starport-layer-bucket/*" in public["Resource"]
    assert any("al2023-repos" in arn for arn in public["Resource"])


def test_buckets_of_other_accounts_can_be_read_where_named():
    """A bucket of models in another account is read, never written."""
    stack = endpoints((), readable_buckets=["arn:aws:s3:::shared-models"])
    [statement] = [one for one in gateway(stack).policy() if one["Sid"] == "ReadableBuckets"]
    assert statement["Resource"] == ["arn:aws:s3:::shared-models", "arn:aws:s3:::shared-models/*"]
    assert not [action for action in statement["Action"] if "Put" in action or "Delete" in action]


def test_services_of_a_cluster():
    """An edge adds load balancing, shells on nodes add Session Manager; all are known names."""
    assert set(cluster_services()) == PRIVATE_CLUSTER
    assert set(cluster_services(edge=True)) - PRIVATE_CLUSTER == {"elasticloadbalancing"}
    assert set(cluster_services(node_shells=True)) - PRIVATE_CLUSTER == {"ssmmessages"}
    assert set(cluster_services(edge=True, node_shells=True)) <= set(INTERFACE_SERVICES)


def test_services_of_a_sagemaker_model():
    """An isolated model needs the S3 gateway alone, which is free; one that calls AWS needs two, callers one more."""
    assert endpoint_services(network_isolation=True) == ()
    assert set(endpoint_services(network_isolation=False)) == {"logs", "monitoring"}
    assert endpoint_services(network_isolation=True, private_callers=True) == ("sagemaker.runtime",)
    stack = endpoints(endpoint_services(network_isolation=True))
    assert interfaces(stack) == []
    assert stack.all("aws_security_group") == []
    assert json.loads(gateway(stack)["policy"])["Statement"]


@pytest.mark.parametrize("services", [("s3",), ("ec2", "ec2"), ("pricing",)])
def test_unknown_or_repeated_services_are_programmers_faults(services):
    """S3 has its gateway; other names are checked by the list."""
    with pytest.raises(AssertionError):
        endpoints(services)

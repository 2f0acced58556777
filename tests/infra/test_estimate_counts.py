"""What an estimate counts is what a synthesized stack has: the rules of both must not drift apart."""

from __future__ import annotations

import pytest

from eagle3.metrics.catalogue import CATALOGUE
from infra.catalogue.gpu_instances import gpu_instance
from infra.estimate.assumptions import Assumptions
from infra.estimate.book import Table
from infra.estimate.machines import pool_items
from infra.estimate.stack import Question, items_of
from infra.kubernetes.karpenter import NodeIdentity, node_class
from infra.settings.load import load_settings
from infra.settings.pools import PoolSettings
from stack_doubles import TODAY, VARIANTS, variant

DEPLOYING = [name for name, (stack, _, _) in VARIANTS.items() if stack != "bootstrap"]


def items(name, **assumptions):
    """Items of one of the variants."""
    stack, environment, overrides = VARIANTS[name]
    settings = load_settings(environment, overrides)
    question = Question(stack=stack, settings=settings, assumptions=Assumptions(**assumptions), today=TODAY)
    return items_of(question, Table())


def counted(name, price, named=""):
    """Quantities of the items with a price, added up; 0 where there is none."""
    return sum(item.quantity for item in items(name) if item.price == price and item.name.startswith(named))


def interface_zones(stack):
    return sum(
        len(endpoint["subnet_ids"])
        for endpoint in stack.all("aws_vpc_endpoint")
        if endpoint["vpc_endpoint_type"] == "Interface"
    )


def alarm_metrics(stack):
    """Metrics of alarms by the minute, and below it."""
    slow = fast = 0
    for alarm in stack.all("aws_cloudwatch_metric_alarm"):
        queries = [query["metric"]["period"] for query in alarm.get("metric_query", []) if "metric" in query]
        periods = queries or [alarm["period"]]
        if min(periods) < 60:
            fast += len(periods)
        else:
            slow += len(periods)
    return slow, fast


@pytest.mark.parametrize("name", DEPLOYING)
def test_network_is_counted_as_it_is_made(name):
    """Interface endpoints by service and zone, NAT gateways and their addresses, in every variant of every stack."""
    stack = variant(name)
    assert counted(name, "interface-endpoint-zone") == interface_zones(stack)
    assert counted(name, "nat-gateway") == len(stack.all("aws_nat_gateway"))
    assert counted(name, "public-ipv4") == len(stack.all("aws_eip"))


@pytest.mark.parametrize("name", DEPLOYING)
def test_keys_alarms_and_dashboards_are_counted_as_they_are_made(name):
    """Customer-managed keys, metrics of alarms by their resolution, one dashboard."""
    stack = variant(name)
    assert counted(name, "kms-key") == len(stack.all("aws_kms_key"))
    slow, fast = alarm_metrics(stack)
    assert counted(name, "cloudwatch-alarm-metric") == slow
    assert counted(name, "cloudwatch-alarm-metric-fast") == fast
    assert counted(name, "cloudwatch-dashboard") == len(stack.all("aws_cloudwatch_dashboard"))


@pytest.mark.parametrize("name", [name for name in DEPLOYING if not name.endswith(("large", "edge"))])
def test_endpoint_runs_on_what_the_stack_says(name):
    """The instance type of the endpoint's configuration; nothing by the hour where it is serverless."""
    [variants] = [made["production_variants"] for made in variant(name).all("aws_sagemaker_endpoint_configuration")]
    main = [item for item in items(name) if item.main]
    assert [item.price for item in main] == [made["instance_type"] for made in variants if "instance_type" in made]
    if "initial_instance_count" in variants[0]:
        assert main[0].quantity == variants[0]["initial_instance_count"]


@pytest.mark.parametrize("name", [name for name in DEPLOYING if name.endswith(("large", "edge"))])
def test_cluster_is_counted_as_it_is_made(name):
    """Control plane, system nodes with their disks and metrics, edge with its rules."""
    stack = variant(name)
    group, template = stack.only("aws_eks_node_group"), stack.only("aws_launch_template")
    nodes = group["scaling_config"]["min_size"]
    [disk] = template["block_device_mappings"]
    assert template["monitoring"]["enabled"]
    assert counted(name, "eks-cluster") == len(stack.all("aws_eks_cluster"))
    assert counted(name, group["instance_types"][0]) == nodes
    assert counted(name, "ebs-gp3", "system nodes") == nodes * disk["ebs"]["volume_size"]
    assert counted(name, "cloudwatch-metric", "system nodes") == 7 * nodes
    assert counted(name, "load-balancer") == len(stack.all("aws_lb"))
    firewalls = stack.all("aws_wafv2_web_acl")
    assert counted(name, "firewall") == len(firewalls)
    assert counted(name, "firewall-rule") == sum(len(made["rule"]) for made in firewalls)
    assert (counted(name, "cloudfront-data") > 0) == bool(stack.all("aws_cloudfront_distribution"))


@pytest.mark.parametrize("name", DEPLOYING)
def test_records_are_counted_where_they_are_made(name):
    """Flow logs and data events of a trail are lines exactly where the stack has them."""
    stack = variant(name)
    flows = [item for item in items(name) if item.name.startswith("flow logs")]
    assert len(flows) == len(stack.all("aws_flow_log"))
    kinds = {"s3": "flow-log-delivery", "cloud-watch-logs": "log-ingestion"}
    assert [item.price for item in flows] == [kinds[made["log_destination_type"]] for made in stack.all("aws_flow_log")]
    events = [made for made in stack.all("aws_cloudtrail") if "event_selector" in made.values]
    assert (counted(name, "cloudtrail-data-events") > 0) == bool(events)


def test_nothing_that_costs_is_missing():
    """Every type of resource of the variants is known here as counted, or as one that is not billed by itself."""
    counted_types = {
        "aws_cloudfront_distribution", "aws_cloudtrail", "aws_cloudwatch_dashboard", "aws_cloudwatch_log_group",
        "aws_cloudwatch_metric_alarm", "aws_codebuild_project", "aws_ecr_repository", "aws_eip", "aws_eks_cluster",
        "aws_eks_node_group", "aws_flow_log", "aws_kms_key", "aws_launch_template", "aws_lb", "aws_nat_gateway",
        "aws_s3_bucket", "aws_sagemaker_endpoint", "aws_sagemaker_endpoint_configuration", "aws_sqs_queue",
        "aws_vpc_endpoint", "aws_wafv2_web_acl",
    }  # fmt: skip
    free_prefixes = (
        "aws_appautoscaling_", "aws_cloudfront_", "aws_cloudwatch_event_", "aws_cloudwatch_log_resource_policy",
        "aws_default_security_group", "aws_ecr_lifecycle_policy", "aws_eks_", "aws_iam_", "aws_internet_gateway",
        "aws_kms_alias", "aws_lb_", "aws_route", "aws_s3_", "aws_sagemaker_model", "aws_security_group", "aws_sns_",
        "aws_sqs_queue_policy", "aws_subnet", "aws_vpc", "aws_wafv2_web_acl_logging", "aws_budgets_budget",
    )  # fmt: skip
    kinds = {kind for name in DEPLOYING for kind in variant(name).kinds()}
    assert {kind for kind in kinds - counted_types if not kind.startswith(free_prefixes)} == set()


def test_metrics_of_the_runtime_are_those_of_its_catalogue():
    """As many as the runtime's catalogue has for CloudWatch, one more for each level of the draft tree."""
    [found] = [item.quantity for item in items("small") if item.name == "metrics of the runtime"]
    names = [entry.cloudwatch for entry in CATALOGUE if entry.cloudwatch is not None]
    depth = load_settings("dev").small.deployment.speculation.depth
    assert found == len(names) - 1 + depth
    assert "AcceptanceByDepth<N>" in names
    [bare] = [item.quantity for item in items("small serverless") if item.name == "metrics of the runtime"]
    assert bare == found - 1  # no GPU, no GPUMemoryUsedMB


@pytest.mark.parametrize("alias", ["al2023@v20260903", "bottlerocket@1.40.0"])
def test_pool_disks_are_those_of_the_node_class(alias):
    """GiB of a machine are those of the manifest that Karpenter makes machines from."""
    pool = PoolSettings(ami_alias=alias)
    manifest = node_class(
        pool,
        identity=NodeIdentity(role="nodes"),
        subnet_ids=["subnet-1"],
        security_group_ids=["sg-1"],
        kms_key_arn="arn",
        tags={},
    )
    sizes = [int(disk["ebs"]["volumeSize"].removesuffix("Gi")) for disk in manifest["spec"]["blockDeviceMappings"]]
    found = pool_items(
        pool,
        region="us-east-1",
        budget_usd=60_000,
        gpus_of_replica=1,
        book=Table(),
        assumptions=Assumptions(machines=3),
    )
    assert [item.quantity for item in found if item.price == "ebs-gp3"] == [3 * sum(sizes)]
    assert manifest["spec"]["detailedMonitoring"]
    assert [item.quantity for item in found if item.price == "cloudwatch-metric"] == [7 * 3]


def test_machines_by_default_are_what_the_budget_allows():
    """Two machines of eight A100 for 60,000 USD: the pool's own limit, not the published range's four."""
    main = [item for item in items("large") if item.main]
    assert sum(item.quantity for item in main) == pytest.approx(2)
    assert all(gpu_instance(item.price).gpus == 8 for item in main)

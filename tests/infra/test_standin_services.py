"""Adapters of endpoints, alarms, topics, events, clusters and the edge: what is asked for is there, and goes again."""

from __future__ import annotations

import pytest

from standin_account import Account
from standin_doubles import local_aws

ROLE = "arn:aws:iam::123456789012:role/r"


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    with local_aws() as endpoint:
        yield Account(endpoint, tmp_path_factory.mktemp("schemas"))


def test_an_endpoint_gets_a_new_configuration_in_place(account):
    """D22: names are made up where none is set; the endpoint serves its variant."""
    container = {"image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/i:1", "environment": {"A": "1"}}
    model = account.make("aws_sagemaker_model", execution_role_arn=ROLE, primary_container=[container])
    assert model["name"].startswith("terraform-")
    variant = {
        "variant_name": "all", "model_name": model["name"], "initial_instance_count": 1,
        "instance_type": "ml.g4dn.xlarge", "container_startup_health_check_timeout_in_seconds": 600,
    }  # fmt: skip
    config = account.make("aws_sagemaker_endpoint_configuration", name_prefix="eagle3-", production_variants=[variant])
    endpoint = account.make("aws_sagemaker_endpoint", name="e", endpoint_config_name=config["name"])
    assert endpoint["arn"].endswith(":endpoint/e")
    sagemaker = account.aws("sagemaker")
    found = sagemaker.describe_model(ModelName=model["name"])
    assert found["PrimaryContainer"]["Environment"] == {"A": "1"}
    assert sagemaker.list_tags(ResourceArn=model["arn"])["Tags"] == [{"Key": "project", "Value": "eagle3"}]
    assert sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"] == config["name"]

    target = {
        "service_namespace": "sagemaker", "scalable_dimension": "sagemaker:variant:DesiredInstanceCount",
        "resource_id": "endpoint/e/variant/all",
    }  # fmt: skip
    scaling = account.make("aws_appautoscaling_target", **target, min_capacity=1, max_capacity=3)
    metric = {
        "metric_name": "QueueDepth", "namespace": "Eagle3", "statistic": "Maximum",
        "dimensions": [{"name": "EndpointName", "value": "e"}],
    }  # fmt: skip
    tracking = {"target_value": 4, "scale_in_cooldown": 300, "customized_metric_specification": [metric]}
    policy = account.make(
        "aws_appautoscaling_policy", **target, name="queue", policy_type="TargetTrackingScaling",
        target_tracking_scaling_policy_configuration=[tracking],
    )  # fmt: skip
    [found] = account.aws("application-autoscaling").describe_scaling_policies(ServiceNamespace="sagemaker")[
        "ScalingPolicies"
    ]
    said = found["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"]
    assert said["Dimensions"] == [{"Name": "EndpointName", "Value": "e"}]
    account.remove("aws_appautoscaling_policy", policy)
    account.remove("aws_appautoscaling_target", scaling)
    for kind, state in (
        ("aws_sagemaker_endpoint", endpoint), ("aws_sagemaker_endpoint_configuration", config),
        ("aws_sagemaker_model", model),
    ):  # fmt: skip
        account.remove(kind, state)


def test_an_alarm_keeps_its_metric_and_its_queries(account):
    """Dimensions become pairs; queries become a metric with its statistic; a change reaches the alarm."""
    usual = {"comparison_operator": "GreaterThanThreshold", "evaluation_periods": 3, "threshold": 500.0}
    simple = account.make(
        "aws_cloudwatch_metric_alarm", **usual, alarm_name="p99", metric_name="E2ELatencyMs", namespace="Eagle3",
        extended_statistic="p99", period=10, dimensions={"EndpointName": "e"}, treat_missing_data="breaching",
    )  # fmt: skip
    metric = {
        "metric_name": "SpeculativeTokens", "namespace": "Eagle3", "period": 60, "stat": "Sum",
        "dimensions": {"EndpointName": "e"},
    }  # fmt: skip
    queries = [
        {"id": "tokens", "return_data": False, "metric": [metric]},
        {"id": "tau", "expression": "tokens / 2", "label": "tau", "return_data": True},
    ]
    derived = account.make("aws_cloudwatch_metric_alarm", **usual, alarm_name="tau", metric_query=queries)
    cloudwatch = account.aws("cloudwatch")
    found = {alarm["AlarmName"]: alarm for alarm in cloudwatch.describe_alarms()["MetricAlarms"]}
    assert found["p99"]["Dimensions"] == [{"Name": "EndpointName", "Value": "e"}]
    assert (found["p99"]["Period"], found["p99"]["ExtendedStatistic"]) == (10, "p99")
    by_id = {query["Id"]: query for query in found["tau"]["Metrics"]}
    assert by_id["tokens"]["MetricStat"]["Metric"]["MetricName"] == "SpeculativeTokens"
    assert by_id["tau"]["Expression"] == "tokens / 2"
    account.change("aws_cloudwatch_metric_alarm", simple, threshold=400.0)
    assert cloudwatch.describe_alarms(AlarmNames=["p99"])["MetricAlarms"][0]["Threshold"] == 400
    account.remove("aws_cloudwatch_metric_alarm", simple)
    account.remove("aws_cloudwatch_metric_alarm", derived)


def test_a_topic_has_its_key_policy_and_subscribers(account):
    """The policy resource sets the topic's policy, and gives it back when it goes."""
    topic = account.make("aws_sns_topic", name="alarms", kms_master_key_id="alias/k")
    own = '{"Version": "2012-10-17", "Statement": [{"Sid": "Mine", "Effect": "Allow", "Action": "sns:Publish"}]}'
    policy = account.make("aws_sns_topic_policy", arn=topic["arn"], policy=own)
    mail = account.make(
        "aws_sns_topic_subscription", topic_arn=topic["arn"], protocol="email", endpoint="a@example.com"
    )
    sns = account.aws("sns")

    def attributes():
        return sns.get_topic_attributes(TopicArn=topic["arn"])["Attributes"]

    assert attributes()["KmsMasterKeyId"] == "alias/k"
    assert "Mine" in attributes()["Policy"]
    assert [each["Endpoint"] for each in sns.list_subscriptions()["Subscriptions"]] == ["a@example.com"]
    account.remove("aws_sns_topic_subscription", mail)
    policy_id = policy["id"]
    account._changes.delete("aws_sns_topic_policy", policy, b"made")
    assert policy_id == topic["arn"]
    assert "Mine" not in attributes()["Policy"]
    account.remove("aws_sns_topic", topic)


def test_d7_a_rule_has_its_target(account):
    """D7: a target belongs to its rule, with an id of its own where none is set, and goes before it."""
    rule = account.make("aws_cloudwatch_event_rule", name="spot", event_bus_name="default", event_pattern="{}")
    queue = "arn:aws:sqs:us-east-1:123456789012:q"
    target = account.make("aws_cloudwatch_event_target", rule="spot", event_bus_name="default", arn=queue)
    [found] = account.aws("events").list_targets_by_rule(Rule="spot")["Targets"]
    assert (found["Arn"], found["Id"]) == (queue, target["target_id"])
    assert target["id"] == f"spot-{found['Id']}"
    account.remove("aws_cloudwatch_event_target", target)
    account.remove("aws_cloudwatch_event_rule", rule)


def test_a_budget_has_its_notifications(account):
    """Filters become a mapping; every notification has its mail addresses and topics."""
    notification = {
        "comparison_operator": "GREATER_THAN", "notification_type": "ACTUAL", "threshold": 80,
        "threshold_type": "PERCENTAGE", "subscriber_email_addresses": ["a@example.com"],
        "subscriber_sns_topic_arns": ["arn:aws:sns:us-east-1:123456789012:t"],
    }  # fmt: skip
    budget = account.make(
        "aws_budgets_budget", name="monthly", budget_type="COST", time_unit="MONTHLY", limit_amount="100.00",
        limit_unit="USD", cost_filter=[{"name": "TagKeyValue", "values": ["user:stack$small"]}],
        notification=[notification],
    )  # fmt: skip
    assert budget["id"] == "123456789012:monthly"
    budgets = account.aws("budgets")
    found = budgets.describe_budget(AccountId="123456789012", BudgetName="monthly")["Budget"]
    assert found["CostFilters"] == {"TagKeyValue": ["user:stack$small"]}
    [said] = budgets.describe_notifications_for_budget(AccountId="123456789012", BudgetName="monthly")["Notifications"]
    assert said["Threshold"] == 80
    account.remove("aws_budgets_budget", budget)


def test_a_cluster_knows_its_vpc_and_carries_node_groups(account):
    """Authority, endpoint and VPC are there for others to use; add-ons and entries are recorded with their reason."""
    ec2 = account.aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24")["Subnet"]["SubnetId"] for n in range(2)
    ]  # fmt: skip
    cluster = account.make(
        "aws_eks_cluster", name="c", version="1.35", role_arn=ROLE, enabled_cluster_log_types=["api", "audit"],
        vpc_config=[{"subnet_ids": subnets, "endpoint_private_access": True, "endpoint_public_access": False}],
        encryption_config=[{"resources": ["secrets"], "provider": [{"key_arn": "arn:aws:kms:us-east-1:1:key/k"}]}],
    )  # fmt: skip
    assert cluster["certificate_authority"][0]["data"]
    assert cluster["vpc_config"][0]["vpc_id"] == vpc
    found = account.aws("eks").describe_cluster(name="c")["cluster"]
    assert found["encryptionConfig"][0]["provider"]["keyArn"].endswith("key/k")
    assert found["logging"]["clusterLogging"][0]["types"] == ["api", "audit"]
    nodes = account.make(
        "aws_eks_node_group", cluster_name="c", node_group_name="system", node_role_arn=ROLE, subnet_ids=subnets,
        scaling_config=[{"min_size": 2, "desired_size": 2, "max_size": 4}],
    )  # fmt: skip
    addon = account.make("aws_eks_addon", cluster_name="c", addon_name="vpc-cni")
    assert addon["id"] == "c:vpc-cni"
    account.remove("aws_eks_node_group", nodes)
    account.remove("aws_eks_cluster", cluster)


def test_a_load_balancer_passes_requests_to_its_targets(account):
    """Attributes, health check, listener and rule arrive; the suffix of its ARN is what metrics want."""
    ec2 = account.aws("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    zones = [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"][:2]]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.1.{n}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for n, zone in enumerate(zones)
    ]
    balancer = account.make(
        "aws_lb", name="edge", internal=True, load_balancer_type="application", subnets=subnets, idle_timeout=120
    )
    assert balancer["arn_suffix"].startswith("app/edge/")
    health = {"path": "/ready", "protocol": "HTTP", "matcher": "200", "interval": 10, "timeout": 5}
    group = account.make(
        "aws_lb_target_group", name="api", vpc_id=vpc, target_type="ip", port=8080, protocol="HTTP",
        health_check=[health],
    )  # fmt: skip
    refuse = {"content_type": "application/json", "status_code": "404", "message_body": "{}"}
    listener = account.make(
        "aws_lb_listener", load_balancer_arn=balancer["arn"], port=80, protocol="HTTP",
        default_action=[{"type": "fixed-response", "fixed_response": [refuse]}],
    )  # fmt: skip
    rule = account.make(
        "aws_lb_listener_rule", listener_arn=listener["arn"], priority=10,
        condition=[{"path_pattern": [{"values": ["/v1/*"]}]}],
        action=[{"type": "forward", "target_group_arn": group["arn"]}],
    )  # fmt: skip
    elb = account.aws("elbv2")
    set_ = elb.describe_load_balancer_attributes(LoadBalancerArn=balancer["arn"])["Attributes"]
    assert {"Key": "idle_timeout.timeout_seconds", "Value": "120"} in set_
    assert elb.describe_target_groups()["TargetGroups"][0]["HealthCheckPath"] == "/ready"
    assert elb.describe_rules(RuleArns=[rule["arn"]])["Rules"][0]["Actions"][0]["TargetGroupArn"] == group["arn"]
    for kind, state in (
        ("aws_lb_listener_rule", rule), ("aws_lb_listener", listener), ("aws_lb_target_group", group),
        ("aws_lb", balancer),
    ):  # fmt: skip
        account.remove(kind, state)


def test_a_firewall_keeps_empty_blocks(account):
    """`allow {}` and `none {}` mean something and arrive; a change and a deletion name the version they change."""
    visible = {"cloudwatch_metrics_enabled": True, "metric_name": "m", "sampled_requests_enabled": True}
    managed = {"vendor_name": "AWS", "name": "AWSManagedRulesAmazonIpReputationList"}
    rule = {
        "name": "reputation", "priority": 1, "override_action": [{"none": [{}]}], "visibility_config": [visible],
        "statement": [{"managed_rule_group_statement": [managed]}],
    }  # fmt: skip
    acl = account.make(
        "aws_wafv2_web_acl", name="edge", scope="REGIONAL", default_action=[{"allow": [{}]}], rule=[rule],
        visibility_config=[visible],
    )  # fmt: skip
    waf = account.aws("wafv2")

    def found():
        return waf.get_web_acl(Name="edge", Scope="REGIONAL", Id=acl["id"])["WebACL"]

    assert found()["DefaultAction"] == {"Allow": {}}
    assert found()["Rules"][0]["OverrideAction"] == {"None": {}}
    changed = account.change("aws_wafv2_web_acl", acl, default_action=[{"block": [{}]}])
    assert found()["DefaultAction"] == {"Block": {}}
    account.remove("aws_wafv2_web_acl", changed)


def test_a_distribution_never_asks_twice_for_a_generation(account):
    """Lists arrive counted; methods, origins, countries and the certificate are what was asked for."""
    methods = ["GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"]
    behavior = {
        "target_origin_id": "lb", "viewer_protocol_policy": "https-only", "allowed_methods": methods,
        "cached_methods": ["GET", "HEAD"], "cache_policy_id": "4135ea2d-6df8-44a3-9df3-4b5a84be39ad",
    }  # fmt: skip
    custom = {
        "http_port": 80, "https_port": 443, "origin_protocol_policy": "https-only", "origin_ssl_protocols": ["TLSv1.2"],
        "origin_read_timeout": 120,
    }  # fmt: skip
    origin = {
        "origin_id": "lb",
        "domain_name": "a.example.com",
        "connection_attempts": 1,
        "custom_origin_config": [custom],
    }
    distribution = account.make(
        "aws_cloudfront_distribution", enabled=True, comment="c", aliases=["api.example.com"], origin=[origin],
        default_cache_behavior=[behavior],
        restrictions=[{"geo_restriction": [{"restriction_type": "whitelist", "locations": ["DE", "US"]}]}],
        viewer_certificate=[{"cloudfront_default_certificate": True}],
    )  # fmt: skip
    cloudfront = account.aws("cloudfront")
    config = cloudfront.get_distribution(Id=distribution["id"])["Distribution"]["DistributionConfig"]
    assert config["DefaultCacheBehavior"]["AllowedMethods"]["Quantity"] == 7
    assert config["DefaultCacheBehavior"]["AllowedMethods"]["CachedMethods"]["Items"] == ["GET", "HEAD"]
    assert config["Origins"]["Items"][0]["ConnectionAttempts"] == 1
    assert config["Restrictions"]["GeoRestriction"]["Items"] == ["DE", "US"]
    assert distribution["hosted_zone_id"] == "Z2FDTNDATAQYW2"
    account.remove("aws_cloudfront_distribution", distribution)


def test_dashboards_log_policies_and_builds_come_and_go(account):
    """Each is found by its name, and gone when it is deleted."""
    made = {
        "aws_cloudwatch_dashboard": {"dashboard_name": "d", "dashboard_body": '{"widgets": []}'},
        "aws_cloudwatch_log_resource_policy": {"policy_name": "p", "policy_document": "{}"},
        "aws_codebuild_project": {
            "name": "build", "service_role": ROLE, "build_timeout": 30,
            "source": [{"type": "S3", "location": "b/k.zip"}], "artifacts": [{"type": "NO_ARTIFACTS"}],
            "environment": [{
                "type": "LINUX_CONTAINER", "image": "i", "compute_type": "BUILD_GENERAL1_SMALL",
                "environment_variable": [{"name": "A", "value": "1"}],
            }],
        },
    }  # fmt: skip
    for kind, values in made.items():
        state = account.make(kind, **values)
        assert account.there(kind, state)
        account.remove(kind, state)


def test_what_is_only_recorded_says_why():
    """Every type that the local AWS cannot make has its reason, and every other has an adapter."""
    from infra.rehearsal.provider.registry import collect

    registry = collect()
    for kind in ("aws_eks_addon", "aws_cloudfront_vpc_origin", "aws_ce_cost_allocation_tag"):
        assert registry.reason(kind).startswith("the local AWS has no ")
    for kind in ("aws_eks_cluster", "aws_cloudfront_distribution", "aws_wafv2_web_acl", "aws_budgets_budget"):
        assert registry.reason(kind) is None

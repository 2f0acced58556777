"""Whole stacks, walked from resource to resource: what refers to what, and whether the other side lets it in."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

import pytest

from infra.catalogue.inference_ami import AMIS, OLDEST_DRIVER
from infra.catalogue.sagemaker_instances import endpoint_instance
from infra_doubles import listed
from stack_doubles import VARIANTS, stack, variant

ROOT = Path(__file__).parents[2]
DEPLOYING = [name for name in VARIANTS if name != "bootstrap"]
CLUSTERS = [name for name in VARIANTS if "large" in name]
ENDPOINTS = [name for name in DEPLOYING if name not in CLUSTERS]


def lets_in(statements, service, *actions):
    """Whether a service may do all of the actions by these statements."""
    return any(
        statement["Effect"] == "Allow"
        and service in listed(statement.get("Principal", {}).get("Service", []))
        and all(any(fnmatch.fnmatch(action, allowed) for allowed in listed(statement["Action"])) for action in actions)
        for statement in statements
    )


def alarms_of(found):
    """Alarms that call people; those that start a scaling policy call nobody."""
    return [
        alarm
        for alarm in found.all("aws_cloudwatch_metric_alarm")
        if any(other.kind == "aws_sns_topic" for other in found.references(alarm["alarm_actions"]))
    ]


def topic_key(found, topic_arn):
    return found.follow(found.follow(topic_arn)["kms_master_key_id"])


@pytest.mark.parametrize("name", DEPLOYING)
def test_alarm_reaches_its_topic_through_the_key(name):
    """Alarm to topic to key: CloudWatch may publish to the topic and use its key, or no alarm would ever arrive."""
    found = variant(name)
    alarms = alarms_of(found)
    assert len(alarms) >= 2
    for alarm in alarms:
        assert alarm["alarm_actions"] == alarm["ok_actions"]
        for action in alarm["alarm_actions"]:
            topic = found.follow(action)
            assert topic.kind == "aws_sns_topic"
            policies = [other for other in found.all("aws_sns_topic_policy") if found.follow(other["arn"]) == topic]
            assert lets_in(policies[0].policy(), "cloudwatch.amazonaws.com", "sns:Publish")
            key = topic_key(found, action)
            assert lets_in(key.policy(), "cloudwatch.amazonaws.com", "kms:Decrypt", "kms:GenerateDataKey")


@pytest.mark.parametrize("name", DEPLOYING)
def test_every_alarm_leads_to_a_runbook(name):
    """The address in an alarm's text ends in a file of docs/runbooks."""
    for alarm in alarms_of(variant(name)):
        [page] = re.findall(r"/docs/runbooks/([\w-]+\.md)", alarm["alarm_description"])
        assert (ROOT / "docs" / "runbooks" / page).is_file()


@pytest.mark.parametrize("name", DEPLOYING)
def test_budget_reaches_its_topic_through_the_key(name):
    """AWS Budgets may publish to the topic and use its key, at 80 % and at 100 %."""
    found = variant(name)
    budget = found.only("aws_budgets_budget")
    assert {80, 100} <= {line["threshold"] for line in budget["notification"]}
    for line in budget["notification"]:
        for arn in line["subscriber_sns_topic_arns"]:
            policy = found.follow(arn)
            assert lets_in(policy.policy(), "budgets.amazonaws.com", "sns:Publish")
            key = topic_key(found, policy["arn"])
            assert lets_in(key.policy(), "budgets.amazonaws.com", "kms:Decrypt", "kms:GenerateDataKey")


@pytest.mark.parametrize("name", CLUSTERS)
def test_rules_reach_the_interruption_queue(name):
    """D6, D7: five rules, each with the one queue as target, and the queue lets events in from each of them."""
    found = variant(name)
    queue = found.only("aws_sqs_queue")
    assert queue["message_retention_seconds"] == 300
    to_queue = [
        target for target in found.all("aws_cloudwatch_event_target") if queue in found.references(target["arn"])
    ]
    rules = [found.follow(target["rule"]) for target in to_queue]
    assert len({rule.id for rule in rules}) == 5
    [policy] = found.all("aws_sqs_queue_policy")
    assert found.follow(policy["queue_url"]) == queue
    allowed = [statement for statement in policy.policy() if statement["Effect"] == "Allow"]
    assert lets_in(allowed, "events.amazonaws.com", "sqs:SendMessage")
    assert all(rule in found.references(policy["policy"]) for rule in rules)


@pytest.mark.parametrize("name", CLUSTERS)
def test_rules_may_start_the_builds(name):
    """A rule whose target is a CodeBuild project has a role that EventBridge may take and that may start the build."""
    found = variant(name)
    started = [target for target in found.all("aws_cloudwatch_event_target") if target.get("role_arn")]
    assert len(started) == 2
    for target in started:
        project, role = found.follow(target["arn"]), found.follow(target["role_arn"])
        assert project.kind == "aws_codebuild_project"
        assert lets_in(role.policy("assume_role_policy"), "events.amazonaws.com", "sts:AssumeRole")
        [rights] = [policy for policy in found.all("aws_iam_role_policy") if role in found.references(policy["role"])]
        assert project in found.references(rights["policy"])


@pytest.mark.parametrize("name", VARIANTS)
def test_every_bucket_is_closed_and_encrypted(name):
    """Bucket to key: each has an encryption, a public access block, versions and a policy that asks for TLS 1.2."""
    found = variant(name)
    buckets = found.all("aws_s3_bucket")
    assert buckets
    for bucket in buckets:

        def of(kind, bucket=bucket):
            [one] = [other for other in found.all(kind) if bucket in found.references(other["bucket"])]
            return one

        block = of("aws_s3_bucket_public_access_block")
        assert all(block[key] for key in ("block_public_acls", "block_public_policy", "ignore_public_acls"))
        assert of("aws_s3_bucket_versioning")["versioning_configuration"]["status"] == "Enabled"
        denied = [statement for statement in of("aws_s3_bucket_policy").policy() if statement["Effect"] == "Deny"]
        assert "s3:TlsVersion" in json.dumps(denied)
        assert "aws:SecureTransport" in json.dumps(denied)
        text = json.dumps(of("aws_s3_bucket_server_side_encryption_configuration")["rule"])
        keys = [other for other in found.references(text) if other.kind == "aws_kms_key"]
        assert keys or "access-logs" in bucket["bucket"]
        assert all(key["enable_key_rotation"] for key in keys)


@pytest.mark.parametrize("name", DEPLOYING)
def test_log_groups_fit_the_pattern_of_their_key(name):
    """D26: the key lets CloudWatch Logs in for a pattern of groups that every group's name matches; no reference."""
    found = variant(name)
    groups = [group for group in found.all("aws_cloudwatch_log_group") if "provider" not in group.values]
    assert groups
    for group in groups:
        key = found.follow(group["kms_key_id"])
        assert not found.references(key["policy"])
        patterns = [
            pattern
            for statement in key.policy()
            if any("logs." in service for service in listed(statement.get("Principal", {}).get("Service", [])))
            for operator in statement["Condition"].values()
            for context, value in operator.items()
            if context == "kms:EncryptionContext:aws:logs:arn"
            for pattern in listed(value)
        ]
        plain = [re.sub(r"\$\{[^}]*\}", "ACCOUNT", pattern) for pattern in patterns]
        arn = f"arn:aws:logs:us-east-1:ACCOUNT:log-group:{group['name']}"
        assert any(fnmatch.fnmatch(arn, pattern) for pattern in plain), (group["name"], plain)


@pytest.mark.parametrize("name", CLUSTERS)
def test_association_leads_to_a_role_that_pods_may_take(name):
    """D5: each association's role trusts Pod Identity with both actions, and the agent add-on is there."""
    found = variant(name)
    associations = found.all("aws_eks_pod_identity_association")
    assert len(associations) >= 4
    for association in associations:
        role = found.follow(association["role_arn"])
        assert lets_in(role.policy("assume_role_policy"), "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
    assert "eks-pod-identity-agent" in {addon["addon_name"] for addon in found.all("aws_eks_addon")}


NO_NAT = [
    "ec2", "ecr.api", "ecr.dkr", "sts", "ssm", "sqs", "eks", "eks-auth", "kms", "logs", "monitoring", "secretsmanager"
]  # fmt: skip


def test_cluster_without_nat_has_every_endpoint():
    """D4: without NAT each service has an interface endpoint with private DNS, and S3 a gateway on every table."""
    found = variant("large")
    assert not found.all("aws_nat_gateway")
    interfaces = [one for one in found.all("aws_vpc_endpoint") if one["vpc_endpoint_type"] == "Interface"]
    services = {one["service_name"].removeprefix("com.amazonaws.us-east-1.") for one in interfaces}
    assert set(NO_NAT) <= services
    assert all(one["private_dns_enabled"] for one in interfaces)
    [gateway] = [one for one in found.all("aws_vpc_endpoint") if one["vpc_endpoint_type"] == "Gateway"]
    tables = {table.id for table in found.all("aws_route_table")}
    assert {table.id for table in found.references(gateway["route_table_ids"])} == tables


def document(found, ending):
    """What the S3 object whose key ends so holds."""
    [one] = [item for item in found.all("aws_s3_object") if item["key"].endswith(ending)]
    return json.loads(one["content"])


@pytest.mark.parametrize("name", CLUSTERS)
def test_nodes_join_with_the_role_that_karpenter_may_pass(name):
    """D1, D3, D4: node class to profile to role; that role is the one passed, and the one with the EC2_LINUX entry."""
    found = variant(name)
    [node_class] = document(found, "node-classes.json")["items"]
    profile = found.follow(node_class["spec"]["instanceProfile"])
    role = found.follow(profile["role"])
    passed = [
        other
        for policy in found.all("aws_iam_role_policy")
        for statement in policy.policy()
        if "iam:PassRole" in listed(statement["Action"])
        for other in found.references(listed(statement["Resource"]))
    ]
    assert passed == [role]
    [entry] = [one for one in found.all("aws_eks_access_entry") if one.get("type") == "EC2_LINUX"]
    assert found.follow(entry["principal_arn"]) == role
    assert not entry.get("kubernetes_groups")


@pytest.mark.parametrize("name", CLUSTERS)
def test_karpenter_reads_the_queue_by_name(name):
    """D4, D6: Karpenter is given the queue's name, and told whether it is cut off from the internet."""
    found = variant(name)
    settings = document(found, "values/karpenter.json")["settings"]
    assert found.follow(settings["interruptionQueue"]) == found.only("aws_sqs_queue")
    assert settings["interruptionQueue"].endswith(".name}")
    assert settings["isolatedVPC"] is (not found.all("aws_nat_gateway"))


@pytest.mark.parametrize("name", CLUSTERS)
def test_pools_launch_where_the_subnets_are(name):
    """D2, D12, D13: one pool with spot and on-demand, two types, two zones that have subnets, an end to a drain."""
    found = variant(name)
    [pool] = document(found, "node-pools.json")["items"]
    spec = pool["spec"]["template"]["spec"]
    allowed = {term["key"]: term["values"] for term in spec["requirements"]}
    assert {"spot", "on-demand"} <= set(allowed["karpenter.sh/capacity-type"])
    assert len(allowed["node.kubernetes.io/instance-type"]) >= 2
    assert len(allowed["topology.kubernetes.io/zone"]) >= 2
    zones = {subnet["availability_zone"] for subnet in found.all("aws_subnet")}
    assert set(allowed["topology.kubernetes.io/zone"]) <= zones
    assert spec["nodeClassRef"]["group"] == "karpenter.k8s.aws"
    assert spec["terminationGracePeriod"]
    assert pool["spec"]["disruption"]["consolidateAfter"] == "60s"
    assert int(pool["spec"]["limits"]["nvidia.com/gpu"]) >= 8


@pytest.mark.parametrize("name", CLUSTERS)
def test_what_runs_on_gpu_nodes_tolerates_their_taints(name):
    """D9, D10: the device plugin is there, and it and the exporter tolerate every taint of the pool."""
    found = variant(name)
    [pool] = document(found, "node-pools.json")["items"]
    taints = {(taint["key"], taint["effect"]) for taint in pool["spec"]["template"]["spec"]["taints"]}
    assert taints
    for release in ("nvidia-device-plugin", "dcgm-exporter"):
        values = document(found, f"values/{release}.json")
        assert taints <= {(one["key"], one["effect"]) for one in values["tolerations"]}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_image_fits_the_machine_image_of_its_instances(name):
    """D24: image to CUDA to driver to instance family. D25: the startup timeout is on the variant, in its bounds."""
    found = variant(name)
    [variant_] = found.only("aws_sagemaker_endpoint_configuration")["production_variants"]
    if "serverless_config" in variant_:
        assert "instance_type" not in variant_
        return
    assert 60 <= variant_["container_startup_health_check_timeout_in_seconds"] <= 3600
    ami = {one.version: one for one in AMIS}[variant_["inference_ami_version"]]
    container = found.only("aws_sagemaker_model")["primary_container"]
    cuda = re.search(r"cu(?:da)?(\d+)\.?(\d)", container["image"])
    assert ami.driver >= OLDEST_DRIVER[int(cuda.group(1))]
    assert endpoint_instance(variant_["instance_type"]).family in ami.families


@pytest.mark.parametrize("name", ENDPOINTS)
def test_endpoint_can_be_changed(name):
    """D22: model and configuration have no fixed name, new ones come first. D23: scaling follows the endpoint."""
    found = variant(name)
    for kind in ("aws_sagemaker_model", "aws_sagemaker_endpoint_configuration"):
        one = found.only(kind)
        assert one["lifecycle"]["create_before_destroy"]
        # A model cannot be given a prefix by the provider; without a name it gets a fresh one.
        assert "name" not in one.values
    for target in found.all("aws_appautoscaling_target"):
        assert found.follow(target["resource_id"]).kind == "aws_sagemaker_endpoint"


@pytest.mark.parametrize("name", [name for name in ENDPOINTS if "serverless" not in name])
def test_rollback_alarms_exist(name):
    """What ends a rollout are alarms of the same stack, ten at most; serverless endpoints have no rollouts."""
    found = variant(name)
    alarms = {alarm["alarm_name"]: alarm for alarm in found.all("aws_cloudwatch_metric_alarm")}
    names = [
        one["alarm_name"]
        for one in found.only("aws_sagemaker_endpoint")["deployment_config"]["auto_rollback_configuration"]["alarms"]
    ]
    assert 1 <= len(names) <= 10
    for one in names:
        assert one in alarms or found.follow(one).kind == "aws_cloudwatch_metric_alarm"


@pytest.mark.parametrize("name", VARIANTS)
def test_no_cycle(name):
    """D26: following references and explicit dependencies never comes back to where it began."""
    found = variant(name)
    edges = {
        f"{one.kind}.{one.id}": {f"{other.kind}.{other.id}" for other in found.references(one.values)}
        | set(one.get("depends_on", []))
        for one in found.every()
    }
    done: set[str] = set()

    def visit(node, path):
        assert node not in path, (*path, node)
        if node not in done:
            for other in edges.get(node, ()):
                visit(other, (*path, node))
            done.add(node)

    for node in edges:
        visit(node, ())


@pytest.mark.parametrize("name", VARIANTS)
def test_stacks_hold_no_provider_of_the_cluster(name):
    """D27: no stack plans against the cluster's API; what is inside the cluster is installed from inside the VPC."""
    assert set(variant(name).document["provider"]) == {"aws"}


# What EC2 takes in the description of a security group or of a rule (API reference, CreateSecurityGroup).
_DESCRIPTION = re.compile(r"[a-zA-Z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}")


@pytest.mark.parametrize("name", DEPLOYING)
def test_descriptions_of_rules_are_ones_that_ec2_takes(name):
    """EC2 refuses an apostrophe in the description of a rule, which no schema tells."""
    found = variant(name)
    rules = ("aws_security_group", "aws_vpc_security_group_ingress_rule", "aws_vpc_security_group_egress_rule")
    for kind in rules:
        for one in found.all(kind):
            assert _DESCRIPTION.fullmatch(one["description"]), one["description"]


def test_nodes_reach_each_other():
    """D28: the security group of the nodes lets itself in on every port and protocol."""
    found = variant("large")
    own = [
        rule
        for rule in found.all("aws_vpc_security_group_ingress_rule")
        if rule["ip_protocol"] == "-1"
        and found.follow(rule["security_group_id"]) in found.references(rule.get("referenced_security_group_id", ""))
    ]
    assert own


@pytest.mark.parametrize("name", CLUSTERS)
def test_nodes_may_use_the_key_of_their_disks(name):
    """D8: the key of the volumes lets EC2 in for this account, with grants; node class and launch template use it."""
    found = variant(name)
    [node_class] = document(found, "node-classes.json")["items"]
    key = found.follow(node_class["spec"]["blockDeviceMappings"][0]["ebs"]["kmsKeyID"])
    text = json.dumps(key.policy())
    for word in ("kms:CreateGrant", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey", "kms:ViaService"):
        assert word in text
    assert "kms:CallerAccount" in text
    template = found.only("aws_launch_template")
    assert key in found.references(template["block_device_mappings"])


def test_small_has_neither_nat_nor_edge():
    """What is cheap by default: no NAT gateway, no CloudFront, no load balancer."""
    kinds = stack("small").kinds() | stack("large").kinds()
    assert not kinds & {"aws_nat_gateway", "aws_cloudfront_distribution", "aws_lb"}


@pytest.mark.parametrize("name", CLUSTERS)
def test_bucket_tells_eventbridge_of_the_plan(name):
    """A rule that waits for an object of a bucket is told of it: the bucket sends its changes to EventBridge."""
    found = variant(name)
    rules = [rule for rule in found.all("aws_cloudwatch_event_rule") if '"aws.s3"' in rule["event_pattern"]]
    assert rules
    for rule in rules:
        bucket = found.follow(found.follow(rule["event_pattern"])["bucket"])
        [told] = [one for one in found.all("aws_s3_bucket_notification") if bucket in found.references(one["bucket"])]
        assert told["eventbridge"] is True


@pytest.mark.parametrize("name", CLUSTERS)
def test_failed_bootstrap_reaches_the_topic(name):
    """The rule for failed builds publishes to the alarms' topic, which lets EventBridge in without a condition."""
    found = variant(name)
    [target] = [
        one
        for one in found.all("aws_cloudwatch_event_target")
        if any(other.kind == "aws_sns_topic" for other in found.references(one["arn"]))
    ]
    topic = found.follow(target["arn"])
    [policy] = [one for one in found.all("aws_sns_topic_policy") if found.follow(one["arn"]) == topic]
    [rules] = [one for one in policy.policy() if "events.amazonaws.com" in listed(one["Principal"].get("Service", []))]
    assert "Condition" not in rules
    assert lets_in(topic_key(found, target["arn"]).policy(), "events.amazonaws.com", "kms:Decrypt")


@pytest.mark.parametrize("name", CLUSTERS)
def test_plan_is_put_into_a_bucket_that_keeps_versions_already(name):
    """The plan names versions of objects, so each object waits for the bucket's versioning."""
    found = variant(name)
    objects = found.all("aws_s3_object")
    assert len(objects) >= 7
    for one in objects:
        assert found.follow(one["bucket"]).kind == "aws_s3_bucket_versioning"

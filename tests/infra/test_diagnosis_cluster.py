"""Alarms of the cluster and the bill, as AWS shows them: the injected cause is the one that is named."""

from __future__ import annotations

import json

import pytest

from diagnosis_doubles import account, ago, causes, client, diagnosed, refusal, series
from infra.constructs.cluster.interruption import EVENTS
from infra.constructs.edge.load_balancer import _short
from infra.constructs.operations.log_groups import endpoint_log_group
from infra.diagnosis import endpoint_logs
from infra.diagnosis.interruption_queue import RULE_SUFFIXES
from infra.diagnosis.load_balancer import short_name

SITE = "eagle3-dev-large"
CLUSTER = {
    ("eks", "describe_cluster"): {
        "cluster": {"status": "ACTIVE", "version": "1.35", "resourcesVpcConfig": {"vpcId": "vpc-1"}}
    }
}
METRICS = ("cloudwatch", "get_metric_data")


def found(alarm, answers, prepare=lambda: None):
    """Causes that a diagnosis names, with the alarm on for ten minutes."""
    raised = None if alarm == "budget" else (alarm, SITE)
    with account(answers, raised=raised):
        prepare()
        report = diagnosed(alarm, site=SITE)
    assert not report.evidence.not_seen, report.evidence.not_seen
    return causes(report)


def test_names_are_those_of_the_stacks():
    """Names that the constructs make and a diagnosis looks for are the same."""
    assert set(RULE_SUFFIXES) == set(EVENTS)
    for site in ("eagle3-dev-large", "a-name-that-is-long-production-large"[:32]):
        for suffix in ("edge", "api"):
            assert short_name(site, suffix) == _short(site, suffix)
    with account():
        from diagnosis_doubles import context

        assert endpoint_logs.endpoint_log_group(context("no-data")) == endpoint_log_group("eagle3-dev-small-endpoint")


def wired():
    """The queue with its rules, and a VPC with an endpoint of SQS."""
    queue = client("sqs").create_queue(QueueName=f"{SITE}-interruption")["QueueUrl"]
    arn = client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
    client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps({"Statement": [policy]})})
    for suffix in RULE_SUFFIXES:
        client("events").put_rule(Name=f"{SITE}-{suffix}", EventPattern='{"source": ["aws.ec2"]}')
        client("events").put_targets(Rule=f"{SITE}-{suffix}", Targets=[{"Id": "karpenter", "Arn": arn}])


WAY = {
    ("ec2", "describe_vpc_endpoints"): {"VpcEndpoints": [{"State": "available"}]},
    ("ec2", "describe_nat_gateways"): {"NatGateways": []},
}
UNREAD = series(ApproximateAgeOfOldestMessage=[200.0] * 30, NumberOfMessagesSent=[1.0] * 30)
STUCK = {
    "no Pod Identity association": {("eks", "list_pod_identity_associations"): {"associations": []}},
    "the Pod Identity agent is missing": {("eks", "describe_addon"): refusal("ResourceNotFoundException")},
    "no way from the VPC to SQS": {("ec2", "describe_vpc_endpoints"): {"VpcEndpoints": []}},
    "messages are read and not deleted": {
        METRICS: series(ApproximateAgeOfOldestMessage=[200.0] * 30, NumberOfMessagesReceived=[3.0] * 30)
    },
    "nobody reads the queue": {},
}


@pytest.mark.parametrize("cause", STUCK)
def test_stuck_queue(cause):
    """What Karpenter lacks for reading its queue is named; if it lacks nothing, nobody reads."""
    assert found("interruption-queue-stuck", CLUSTER | WAY | {METRICS: UNREAD} | STUCK[cause], wired) == [cause]


def test_queue_that_is_gone():
    """A queue that does not exist is the cause, and not that nobody reads it."""
    assert found("interruption-queue-stuck", CLUSTER | WAY | {METRICS: UNREAD}) == ["the queue is gone"]


def test_rules_that_lead_nowhere_are_said():
    """A disabled rule and one without target are findings."""

    def broken():
        wired()
        client("events").disable_rule(Name=f"{SITE}-health")
        client("events").remove_targets(Rule=f"{SITE}-rebalance", Ids=["karpenter"])

    with account(CLUSTER | WAY | {METRICS: UNREAD}):
        broken()
        report = diagnosed("interruption-queue-stuck", site=SITE)
    said = {one.what: one.value for one in report.evidence.findings if one.what.startswith("rule ")}
    assert said[f"rule {SITE}-health"] == "disabled, leads to the queue"
    assert said[f"rule {SITE}-rebalance"] == "enabled, does not lead to the queue"
    assert said[f"rule {SITE}-state-change"] == "enabled, leads to the queue"


def trail(code, text="", *, inside=False, site=SITE):
    """An answer of lookup_events: one CreateFleet of the cluster that was refused."""
    event = {"userIdentity": {"arn": f"arn:aws:sts::1:assumed-role/{site}-karpenter/x"}, "eventName": "CreateFleet"}
    error = {"errorCode": code, "errorMessage": text}
    event |= {"responseElements": {"CreateFleetResponse": {"errorSet": {"item": [error, error]}}}} if inside else error
    answer = {"Events": [{"EventTime": ago(5), "CloudTrailEvent": json.dumps(event)}]}
    return lambda parameters: (
        answer if parameters["LookupAttributes"][0]["AttributeValue"] == "CreateFleet" else {"Events": []}
    )


TRAIL = ("cloudtrail", "lookup_events")
PENDING = {METRICS: series(scheduler_pending_pods_UNSCHEDULABLE=[2.0] * 30)}
LAUNCHES = {
    "no capacity in these zones": {TRAIL: trail("InsufficientInstanceCapacity", inside=True)},
    "a quota of the account": {TRAIL: trail("MaxSpotInstanceCountExceeded", inside=True)},
    "the controller may not launch": {TRAIL: trail("Client.UnauthorizedOperation", "not authorized for iam:PassRole")},
    "no free address in the subnets": {TRAIL: trail("InsufficientFreeAddressesInSubnet")},
    "a node never registered": {("eks", "list_access_entries"): {"accessEntries": []}},
}


@pytest.mark.parametrize("cause", LAUNCHES)
def test_unschedulable(cause):
    """Why AWS gives no node is read out of CloudTrail, also where the call itself succeeded."""
    assert found("pods-unschedulable", CLUSTER | PENDING | LAUNCHES[cause]) == [cause]


def test_unschedulable_by_quota_alone():
    """Quotas below one instance, on demand and spot, are the cause before any call was refused."""
    answers = CLUSTER | PENDING | {("service-quotas", "get_service_quota"): {"Quota": {"Value": 0.0}}}
    assert found("pods-unschedulable", answers) == ["a quota of the account"]


def test_refusals_of_another_stack_are_no_cause():
    """CloudTrail is the account's: a call of another stack explains nothing here."""
    other = {TRAIL: trail("InsufficientInstanceCapacity", site="eagle3-prod-large")}
    assert found("pods-unschedulable", CLUSTER | PENDING | other) == []


def spot(code, instance="i-own"):
    request = {
        "InstanceId": instance, "Status": {"Code": code, "UpdateTime": ago(8)}, "CreateTime": ago(500),
        "LaunchSpecification": {"InstanceType": "p4d.24xlarge"}, "LaunchedAvailabilityZone": "us-east-1a",
    }  # fmt: skip
    own = {"InstanceId": "i-own", "State": {"Name": "running"}, "InstanceLifecycle": "spot"}
    return {
        ("ec2", "describe_spot_instance_requests"): {"SpotInstanceRequests": [request]},
        ("ec2", "describe_instances"): {"Reservations": [{"Instances": [own]}]},
    }


SPOT = {
    "AWS takes spot nodes back": spot("instance-terminated-no-capacity"),
    "an experiment ends them": spot("instance-terminated-by-experiment"),
    "the price is above the maximum": spot("instance-terminated-by-price"),
    "instances of somebody else": spot("instance-terminated-no-capacity", "i-other"),
}


@pytest.mark.parametrize("cause", SPOT)
def test_spot(cause):
    """The spot requests say why instances ended, and the cluster's tag whose they were."""
    assert found("spot-interruptions", {METRICS: series(TriggeredRules=[3.0])} | SPOT[cause], wired) == [cause]


def test_spot_ended_by_their_owner_is_no_cause():
    """An instance that its owner ended was not taken back."""
    answers = {METRICS: series(TriggeredRules=[3.0])} | spot("instance-terminated-by-user")
    assert found("spot-interruptions", answers, wired) == []


def build(status="FAILED", *lines, said=""):
    """Answers of CodeBuild and of a query of its log."""
    phases = [{"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [{"statusCode": "E", "message": said}]}]
    newest = {
        "id": "p:1", "startTime": ago(20), "endTime": ago(10), "buildStatus": status, "phases": phases,
        "logs": {"groupName": f"/aws/codebuild/{SITE}-bootstrap", "streamName": "s"},
    }  # fmt: skip
    older = {"id": "p:0", "startTime": ago(900), "buildStatus": "SUCCEEDED", "phases": []}
    rows = [
        [{"field": "@message", "value": line}, {"field": "@logStream", "value": stream}]
        for line, stream in [*((line, "s") for line in reversed(lines)), ("Unauthorized", "another build")]
    ]
    return CLUSTER | {
        ("codebuild", "list_builds_for_project"): {"ids": ["p:1", "p:0"]},
        ("codebuild", "batch_get_builds"): {"builds": [older, newest]},
        ("logs", "start_query"): {"queryId": "q"},
        ("logs", "get_query_results"): {"status": "Complete", "results": rows},
        METRICS: series(FailedBuilds=[1.0]),
    }


BOOTSTRAP = {
    "something was not mirrored": build("FAILED", "Error: pulling: manifest unknown"),
    "what was mirrored is not what is pinned": build("FAILED", "sha256sum: WARNING: 1 computed checksum did NOT match"),
    "the cluster cannot be reached": build("FAILED", "dial tcp 10.0.1.4:443: i/o timeout"),
    "the build's role is not let in": build("FAILED", "error: You must be logged in to the server (Unauthorized)"),
    "a Helm release is stuck": build("FAILED", "Error: another operation (install/upgrade/rollback) is in progress"),
    "pods did not become ready": build("FAILED", "waiting", "Error: UPGRADE FAILED: context deadline exceeded"),
    "the build was stopped": build("STOPPED", "waiting"),
    "the build took too long": build("TIMED_OUT", "waiting for nodes to drain"),
}


@pytest.mark.parametrize("cause", BOOTSTRAP)
def test_bootstrap(cause):
    """The build's own log names the cause; the log of another build in the same group does not."""
    assert found("bootstrap-failed", BOOTSTRAP[cause]) == [cause]


def test_bootstrap_without_access_entry():
    """A role without an access entry is the cause whatever the log makes of it."""
    answers = build("FAILED", "i/o timeout") | {("eks", "list_access_entries"): {"accessEntries": []}}
    assert found("bootstrap-failed", answers) == ["the build's role is not let in"]


def test_bootstrap_that_went_well_meanwhile():
    """Nothing is named once the newest build succeeded."""
    assert found("bootstrap-failed", build("SUCCEEDED", "context deadline exceeded")) == []


def balanced(state="healthy", reason="", targets=1, **counts):
    """Answers of the load balancer."""
    health = {"State": state} | ({"Reason": reason} if reason else {})
    arn = "arn:aws:elasticloadbalancing:us-east-1:1:loadbalancer/app/eagle3-dev-large-edge/1"
    return {
        ("elbv2", "describe_target_groups"): {"TargetGroups": [{"TargetGroupArn": "arn"}]},
        ("elbv2", "describe_load_balancers"): {"LoadBalancers": [{"LoadBalancerArn": arn}]},
        ("elbv2", "describe_target_health"): {
            "TargetHealthDescriptions": [
                {"Target": {"Id": f"10.0.0.{number}", "Port": 8080}, "TargetHealth": health}
                for number in range(targets)
            ]
        },
        METRICS: series(**{f"HTTPCode_{name}_Count": [float(value)] * 10 for name, value in counts.items()}),
    }


EDGE = {
    "no pod is bound to the load balancer": balanced(targets=0, ELB_503=20),
    "replicas do not become ready": balanced("unhealthy", "Target.ResponseCodeMismatch", ELB_503=20),
    "pods do not answer": balanced("unhealthy", "Target.Timeout", ELB_503=20),
    "pods end in the middle of answers": balanced(ELB_502=20, Target_5XX=2),
    "no byte for longer than the idle timeout": balanced(ELB_504=20, Target_5XX=2),
    "the server itself answers 5xx": balanced(Target_5XX=20, ELB_502=2),
}


@pytest.mark.parametrize("cause", EDGE)
def test_edge(cause):
    """Targets first; where some are healthy, the kind of error that is counted most."""
    assert found("load-balancer-5xx", EDGE[cause]) == [cause]


def cost(**usage):
    groups = [
        {"Keys": [kind], "Metrics": {"UnblendedCost": {"Amount": str(usd), "Unit": "USD"}}}
        for kind, usd in usage.items()
    ]
    return {("ce", "get_cost_and_usage"): {"ResultsByTime": [{"Groups": groups}]}}


BILLS = {
    "GPU nodes on demand": cost(**{"BoxUsage:p4d.24xlarge": 900, "SpotUsage:p4d.24xlarge": 90, "NatGateway-Hours": 30}),
    "GPU hours beyond what is used": cost(**{"USE1-Host:ml.g5.12xlarge": 900, "NatGateway-Hours": 60}),
    "the network costs around the clock": cost(**{"VpcEndpoint-Hours": 90, "NatGateway-Hours": 60, "Host:ml.g5": 100}),
    "the cost tag is not active": cost() | {("ce", "list_cost_allocation_tags"): {"CostAllocationTags": []}},
}


def budgeted():
    client("budgets").create_budget(
        AccountId="123456789012",
        Budget={
            "BudgetName": f"{SITE}-monthly", "BudgetLimit": {"Amount": "1000", "Unit": "USD"}, "TimeUnit": "MONTHLY",
            "BudgetType": "COST",
        },
    )  # fmt: skip


@pytest.mark.parametrize("cause", BILLS)
def test_budget(cause):
    """The largest usage types say what is dear."""
    assert found("budget", BILLS[cause], budgeted) == [cause]


def test_budget_that_is_spread_has_no_cause():
    """Where no usage type stands out nothing is named."""
    spread = cost(**{"Host:ml.g5": 40, "NatGateway-Hours": 15, "S3": 45})
    assert found("budget", spread, budgeted) == []

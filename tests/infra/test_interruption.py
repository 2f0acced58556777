"""Interruption notices: rule → target → queue → policy → rule."""

from __future__ import annotations

import json

import pytest

from cluster_doubles import CLUSTER_NAME, cluster_stack, depends_on
from infra.constructs.cluster.interruption import EVENTS, Interruption, InterruptionProps
from infra.framework import aws
from infra_doubles import SITE, synthesize

DETAIL_TYPES = {
    "AWS Health Event": "aws.health",
    "EC2 Spot Instance Interruption Warning": "aws.ec2",
    "EC2 Instance Rebalance Recommendation": "aws.ec2",
    "EC2 Instance State-change Notification": "aws.ec2",
    "EC2 Capacity Reservation Instance Interruption Warning": "aws.ec2",
}


def statement(sid):
    """A statement of the queue's policy."""
    stack = cluster_stack()
    [found] = [item for item in stack.only("aws_sqs_queue_policy").policy() if item["Sid"] == sid]
    return found


def test_five_rules_cover_every_notice():
    """D7: Health, spot interruption, rebalance, state change and reservation interruption, each from its source."""
    patterns = [json.loads(rule["event_pattern"]) for rule in cluster_stack().all("aws_cloudwatch_event_rule")]
    assert {pattern["detail-type"][0]: pattern["source"][0] for pattern in patterns} == DETAIL_TYPES
    assert len(patterns) == 5


def test_each_rule_has_the_queue_as_its_target():
    """D7: every rule → one target → the queue."""
    stack = cluster_stack()
    queue = stack.only("aws_sqs_queue")
    aimed = {}
    for target in stack.all("aws_cloudwatch_event_target"):
        assert stack.follow(target["arn"]).id == queue.id
        rule = stack.follow(target["rule"]).id
        assert rule not in aimed
        aimed[rule] = target
    assert set(aimed) == {rule.id for rule in stack.all("aws_cloudwatch_event_rule")}


def test_queue_takes_messages_from_these_rules():
    """D7: queue → policy: events.amazonaws.com may send, from exactly the rules that target it, of this account."""
    stack = cluster_stack()
    allowed = statement("Events")
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert allowed["Action"] == ["sqs:SendMessage"]
    assert stack.follow(allowed["Resource"]).kind == "aws_sqs_queue"
    sources = {rule.id for rule in stack.references(allowed["Condition"]["ArnEquals"]["aws:SourceArn"])}
    assert sources == {rule.id for rule in stack.all("aws_cloudwatch_event_rule")}
    assert allowed["Condition"]["StringEquals"] == {"aws:SourceAccount": SITE.account_id}


def test_policy_is_there_before_the_first_event():
    """A target waits for the policy, so that no notice is refused."""
    stack = cluster_stack()
    policy = stack.only("aws_sqs_queue_policy")
    assert stack.follow(policy["queue_url"]).id == stack.only("aws_sqs_queue").id
    for target in stack.all("aws_cloudwatch_event_target"):
        assert (policy.kind, policy.id) in depends_on(stack, target)


def test_plain_http_is_denied():
    """The condition is a Bool on SecureTransport: as a string comparison it would never match."""
    denied = statement("TlsOnly")
    assert denied["Effect"] == "Deny"
    assert denied["Principal"] == {"AWS": "*"}
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_notices_are_short_lived_and_encrypted():
    """Five minutes; encrypted by SQS, which EventBridge may write to without a key policy."""
    queue = cluster_stack().only("aws_sqs_queue")
    assert queue["message_retention_seconds"] == 300
    assert queue["sqs_managed_sse_enabled"] is True


def test_name_of_the_queue_is_what_karpenter_is_told():
    """D6: the output is the queue's name, not its URL or ARN."""

    def build(stack):
        interruption = Interruption(stack, "I", InterruptionProps(site=SITE, cluster_name=CLUSTER_NAME))
        aws.SsmParameter(stack, "Told", name="told", type="String", value=interruption.queue_name)

    stack = synthesize(build)
    told = stack.only("aws_ssm_parameter")["value"]
    assert stack.follow(told).id == stack.only("aws_sqs_queue").id
    assert told.endswith(".name}")
    assert stack.only("aws_sqs_queue")["name"] == SITE.named("interruption")


def test_two_clusters_have_two_queues():
    """D6: queue and rules bear the name of the stack, so that no cluster eats the notices of another."""
    other = SITE.__class__(
        name="eagle3-prod-unit",
        region=SITE.region,
        partition=SITE.partition,
        account_id=SITE.account_id,
        zones=SITE.zones,
    )

    def build(stack):
        for id, site in (("One", SITE), ("Two", other)):
            Interruption(stack, id, InterruptionProps(site=site, cluster_name=site.named("cluster")))

    stack = synthesize(build)
    for kind in ("aws_sqs_queue", "aws_cloudwatch_event_rule"):
        names = [found["name"] for found in stack.all(kind)]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("suffix", EVENTS)
def test_names_of_rules_fit(suffix):
    """EventBridge takes 64 characters; the longest site name has 32."""
    assert 32 + 1 + len(suffix) <= 64

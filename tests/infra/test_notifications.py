"""The topic: encrypted, closed to other accounts and to plain text, heard by those who are named."""

from __future__ import annotations

from infra.constructs.operations.notifications import PUBLISHERS, Notifications, NotificationsProps
from infra_doubles import SITE, listed, synthesize
from operations_doubles import operations


def test_only_services_of_this_account_publish():
    """Every principal that may publish is a service, on behalf of this account."""
    stack = operations()
    topic = stack.only("aws_sns_topic")
    policy = stack.only("aws_sns_topic_policy")
    assert stack.follow(policy["arn"]) == topic
    publishing = [
        statement
        for statement in policy.policy()
        if statement["Effect"] == "Allow" and "sns:Publish" in statement["Action"]
    ]
    named = {"cloudwatch.amazonaws.com", "budgets.amazonaws.com"}
    [bound] = [statement for statement in publishing if "Condition" in statement]
    assert set(bound["Principal"]["Service"]) == named
    assert bound["Condition"] == {"StringEquals": {"aws:SourceAccount": SITE.account_id}}
    # EventBridge sends no condition keys along: bound by the key instead.
    [rules] = [statement for statement in publishing if "Condition" not in statement]
    assert rules["Principal"] == {"Service": "events.amazonaws.com"}
    assert named | {"events.amazonaws.com"} == set(PUBLISHERS)
    assert all(stack.follow(statement["Resource"]) == topic for statement in publishing)


def test_plain_text_is_refused():
    """Publishing without TLS is denied to everybody."""
    [deny] = [
        statement for statement in operations().only("aws_sns_topic_policy").policy() if statement["Effect"] == "Deny"
    ]
    assert deny["Principal"] == {"AWS": "*"}
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_key_lets_every_publisher_in():
    """Topic → key: each service that the topic admits may use the key too, or its messages would vanish."""
    stack = operations()
    key = stack.follow(stack.only("aws_sns_topic")["kms_master_key_id"])
    assert key["enable_key_rotation"] is True
    services = {
        service
        for statement in key.policy()
        if {"kms:Decrypt", "kms:GenerateDataKey*"} <= set(statement["Action"])
        for service in listed(statement["Principal"].get("Service", []))
    }
    assert set(PUBLISHERS) <= services


def test_subscribers():
    """Each address is subscribed once, by its own protocol."""
    stack = operations()
    topic = stack.only("aws_sns_topic")
    found = {(item["protocol"], item["endpoint"]) for item in stack.all("aws_sns_topic_subscription")}
    assert found == {("email", "ops@example.org"), ("https", "https://example.org/hook")}
    assert all(stack.follow(item["topic_arn"]) == topic for item in stack.all("aws_sns_topic_subscription"))


def test_nobody_need_be_told():
    """Without addresses there is a topic and no subscription."""
    props = NotificationsProps(site=SITE, key_arn="arn:aws:kms:us-east-1:123456789012:key/k", emails=(), webhooks=())
    stack = synthesize(lambda stack: Notifications(stack, "Notifications", props))
    assert stack.only("aws_sns_topic")["name"] == SITE.named("alarms")
    assert "aws_sns_topic_subscription" not in stack.kinds()

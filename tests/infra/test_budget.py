"""The budget: of this stack's costs, told at 80 and 100 percent, never of nothing."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from infra.constructs.operations.budget import Budget, BudgetProps
from infra.cost_tags import PROJECT, cost_tags
from infra.settings.budget import BudgetSettings
from infra_doubles import SITE, synthesize
from operations_doubles import ENDPOINT_SITE, operations


def test_counts_what_carries_the_tag():
    """The filter is the tag that the provider puts on every resource of the stack."""
    budget = operations().only("aws_budgets_budget")
    tags = cost_tags(ENDPOINT_SITE, BudgetSettings(), environment="test", stack="small")
    assert budget["cost_filter"] == [{"name": "TagKeyValue", "values": [f"user:{PROJECT}${tags[PROJECT]}"]}]
    assert (budget["limit_amount"], budget["limit_unit"], budget["time_unit"]) == ("1234.50", "USD", "MONTHLY")


def test_tells_at_80_and_100_percent():
    """Spent 80 %, spent 100 %, and a forecast above 100 % are told, to the topic and to people."""
    stack = operations()
    notifications = stack.only("aws_budgets_budget")["notification"]
    assert [(item["notification_type"], item["threshold"]) for item in notifications] == [
        ("ACTUAL", 80),
        ("ACTUAL", 100),
        ("FORECASTED", 100),
    ]
    for item in notifications:
        assert item["threshold_type"] == "PERCENTAGE"
        assert item["subscriber_email_addresses"] == ["ops@example.org"]
        [arn] = item["subscriber_sns_topic_arns"]
        policy = stack.follow(arn)
        assert policy.kind == "aws_sns_topic_policy"
        assert stack.follow(policy["arn"]) == stack.only("aws_sns_topic")


def test_topic_and_key_let_the_budget_in():
    """Budget → topic policy → key policy: AWS Budgets may publish and encrypt, for this account."""
    stack = operations()
    topic = stack.only("aws_sns_topic")
    for statements in (stack.only("aws_sns_topic_policy").policy(), stack.follow(topic["kms_master_key_id"]).policy()):
        [allowed] = [item for item in statements if "budgets.amazonaws.com" in item["Principal"].get("Service", [])]
        assert allowed["Effect"] == "Allow"
        assert allowed["Condition"]["StringEquals"]["aws:SourceAccount"] == SITE.account_id


def test_tag_is_activated_on_request_only():
    """Activating a tag is the management account's right, so it is off unless asked for."""
    assert operations().only("aws_ce_cost_allocation_tag")["tag_key"] == PROJECT
    props = BudgetProps(
        site=SITE, settings=BudgetSettings(notify_forecast=False), tag_key="Project", tag_value="x", topic_arn="t",
        emails=(),
    )  # fmt: skip
    stack = synthesize(lambda stack: Budget(stack, "Budget", props))
    assert "aws_ce_cost_allocation_tag" not in stack.kinds()
    notifications = stack.only("aws_budgets_budget")["notification"]
    assert [item["notification_type"] for item in notifications] == ["ACTUAL", "ACTUAL"]
    assert all("subscriber_email_addresses" not in item for item in notifications)


@pytest.mark.parametrize("amount", [0, -1, "much"])
def test_no_budget_is_refused(amount):
    """A budget of 0 would be exceeded by everything."""
    with pytest.raises(ValidationError, match="monthly_usd"):
        BudgetSettings.model_validate({"monthly_usd": amount})
    assert BudgetSettings(monthly_usd=0.01).monthly_usd == 0.01


def test_tags_tell_costs_apart():
    """Every resource says whose it is; values are of the characters that tags may have."""
    tags = cost_tags(SITE, BudgetSettings(owner="team a", cost_center="4711"), environment="dev", stack="large")
    assert tags == {
        "Project": SITE.name,
        "Environment": "dev",
        "Stack": "large",
        "Owner": "team a",
        "CostCenter": "4711",
        "ManagedBy": "eagle3-kit",
    }
    with pytest.raises(ValidationError):
        BudgetSettings(owner="no <angles>")

"""The monthly budget of a stack: what its tag costs, and who hears of it.

Knows no resources: costs are told apart by the cost-allocation tag, which counts only once it is activated (by hand in
the billing console, or by `activate_tag`). A budget warns; it stops nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.settings.budget import BudgetSettings
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetProps:
    """What the budget needs."""

    site: Site
    settings: BudgetSettings
    tag_key: str
    """Cost-allocation tag."""
    tag_value: str
    """Its value on what this stack costs."""
    topic_arn: str
    """Where notifications go, behind its policy: AWS Budgets refuses a topic that it may not publish to."""
    emails: tuple[str, ...]
    """Told directly too, so that a broken topic does not hide a bill; ten at most."""


class Budget(Construct):
    """Budget with a notification for each share that is spent, and for a forecast above it."""

    def __init__(self, scope: Any, id: str, props: BudgetProps) -> None:
        super().__init__(scope, id)
        settings = props.settings
        lines = [("ACTUAL", percent) for percent in settings.notify_percent]
        lines += [("FORECASTED", 100.0)] if settings.notify_forecast else []
        budget = aws.BudgetsBudget(
            self,
            "Budget",
            account_id=props.site.account_id,
            name=props.site.named("monthly"),
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=f"{settings.monthly_usd:.2f}",
            limit_unit="USD",
            cost_filter=[
                aws.BudgetsBudgetCostFilter(name="TagKeyValue", values=[f"user:{props.tag_key}${props.tag_value}"])
            ],
            notification=[
                aws.BudgetsBudgetNotification(
                    comparison_operator="GREATER_THAN",
                    notification_type=kind,
                    threshold=percent,
                    threshold_type="PERCENTAGE",
                    subscriber_sns_topic_arns=[props.topic_arn],
                    subscriber_email_addresses=list(props.emails) or None,
                )
                for kind, percent in lines
            ],
        )
        if settings.activate_tag:
            aws.CeCostAllocationTag(self, "Tag", tag_key=props.tag_key, status="Active")
        self.budget_name: str = budget.name

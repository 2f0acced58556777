"""Budgets, and the tags by which costs are told apart."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from infra.rehearsal.provider.adapter import Made, Recorded, call
from infra.rehearsal.provider.templates import State

_TIME = "%Y-%m-%d_%H:%M"


def _budget(state: State) -> dict[str, Any]:
    budget: dict[str, Any] = {
        "BudgetName": state["name"],
        "BudgetType": state["budget_type"],
        "TimeUnit": state["time_unit"],
        "BudgetLimit": {"Amount": state.get("limit_amount"), "Unit": state.get("limit_unit")},
        "CostFilters": {item["name"]: item["values"] for item in state.get("cost_filter") or []},
    }
    for types in state.get("cost_types") or []:
        budget["CostTypes"] = types
    period = {"Start": state.get("time_period_start"), "End": state.get("time_period_end")}
    if given := {name: datetime.strptime(text, _TIME).replace(tzinfo=UTC) for name, text in period.items() if text}:
        budget["TimePeriod"] = given
    return budget


def _notifications(state: State) -> list[dict[str, Any]] | None:
    found = []
    for block in state.get("notification") or []:
        emails = [{"SubscriptionType": "EMAIL", "Address": a} for a in block.get("subscriber_email_addresses") or []]
        topics = [{"SubscriptionType": "SNS", "Address": a} for a in block.get("subscriber_sns_topic_arns") or []]
        found.append({"Notification": block, "Subscribers": [*emails, *topics]})
    return found or None


RESOURCES = {
    "aws_budgets_budget": Made(
        service="budgets",
        create=call(
            "create_budget", AccountId="{account_id}", Budget=_budget, NotificationsWithSubscribers=_notifications
        ),
        id="{account_id}:{name}",
        read=call("describe_budget", AccountId="{account_id}", BudgetName="{name}"),
        found="Budget",
        outputs={
            "account_id": "{account_id}",
            "arn": "arn:{partition}:budgets::{account_id}:budget/{name}",
            "limit_amount": "BudgetLimit.Amount",
            "limit_unit": "BudgetLimit.Unit",
        },
        update=[call("update_budget", AccountId="{account_id}", NewBudget=_budget)],
        delete=call("delete_budget", AccountId="{account_id}", BudgetName="{name}"),
    ),
    "aws_ce_cost_allocation_tag": Recorded(
        reason="the local AWS has no cost-allocation tags", id="{tag_key}", outputs={"type": "UserDefined"}
    ),
}

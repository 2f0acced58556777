"""What the stack has cost this month: its budget, the largest usage types, and whether its cost tag is active.

Facts: `CostFacts`. Knows no causes. Each question to Cost Explorer costs a cent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from infra.cost_tags import PROJECT
from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking

_SHOWN = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class CostFacts:
    """Costs of the month so far; None where they were not seen."""

    limit_usd: float | None
    spent_usd: float | None
    forecast_usd: float | None
    by_usage: dict[str, float] | None
    """USD by usage type, the largest first."""
    tag_active: bool | None

    def share(self, *words: str, without: str | None = None) -> float:
        """Share of the costs whose usage type has one of these words in it, and not that other one; 0 to 1."""
        total = sum((self.by_usage or {}).values())
        found = sum(
            usd
            for kind, usd in (self.by_usage or {}).items()
            if any(word in kind for word in words) and (without is None or without not in kind)
        )
        return found / total if total > 0 else 0.0


class CostCollector:
    """Reads AWS Budgets and Cost Explorer."""

    source: str = "Billing"

    def wanted(self, context: Context) -> bool:
        """For the budget."""
        return context.aws is not None and context.alarm == "budget"

    def collect(self, context: Context) -> Evidence:
        """Budget, usage types, tag."""
        looking = Looking(self.source, context)
        assert context.aws is not None
        # Billing has one region in each partition.
        home = "cn-northwest-1" if context.aws.region.startswith("cn-") else "us-east-1"
        limit, spent, forecast = _budget(looking, context, home)
        usage = _usage(looking, context, home)
        active = _tag(looking, home)
        if all(seen is None for seen in (limit, usage, active)):
            return looking.evidence()
        return looking.evidence(
            CostFacts(limit_usd=limit, spent_usd=spent, forecast_usd=forecast, by_usage=usage, tag_active=active)
        )


def _budget(looking: Looking, context: Context, home: str) -> tuple[float | None, float | None, float | None]:
    account = looking.read("sts", "get_caller_identity")
    if account is None:
        return None, None, None
    name = context.named("monthly")
    answer = looking.read(
        "budgets", "describe_budget", absent=("NotFoundException",), in_region=home, AccountId=account["Account"],
        BudgetName=name,
    )  # fmt: skip
    if answer is None:
        return None, None, None
    if not answer:
        looking.found(f"budget {name}", "does not exist in this account")
        return None, None, None
    budget = answer["Budget"]
    spend = budget.get("CalculatedSpend", {})
    limit = float(budget["BudgetLimit"]["Amount"])
    spent = float(spend["ActualSpend"]["Amount"]) if "ActualSpend" in spend else None
    forecast = float(spend["ForecastedSpend"]["Amount"]) if "ForecastedSpend" in spend else None
    said = [f"{limit:.2f} USD a month"]
    said += [] if spent is None else [f"{spent:.2f} spent"]
    said += [] if forecast is None else [f"{forecast:.2f} forecast"]
    looking.found(f"budget {name}", ", ".join(said))
    return limit, spent, forecast


def _usage(looking: Looking, context: Context, home: str) -> dict[str, float] | None:
    tomorrow = context.now + timedelta(days=1)
    answer = looking.read(
        "ce", "get_cost_and_usage", in_region=home,
        TimePeriod={"Start": f"{context.now:%Y-%m-01}", "End": f"{tomorrow:%Y-%m-%d}"}, Granularity="MONTHLY",
        Metrics=["UnblendedCost"], Filter={"Tags": {"Key": PROJECT, "Values": [context.site]}},
        GroupBy=[{"Type": "DIMENSION", "Key": "USAGE_TYPE"}],
    )  # fmt: skip
    if answer is None:
        return None
    usage: dict[str, float] = {}
    for period in answer.get("ResultsByTime", []):
        for group in period.get("Groups", []):
            usd = float(group["Metrics"]["UnblendedCost"]["Amount"])
            usage[group["Keys"][0]] = usage.get(group["Keys"][0], 0.0) + usd
    usage = dict(sorted(usage.items(), key=lambda item: -item[1]))
    looking.found(f"costs with the tag {PROJECT}={context.site}", f"{sum(usage.values()):.2f} USD this month")
    for kind, usd in list(usage.items())[:_SHOWN]:
        looking.found(f"usage type {kind}", f"{usd:.2f} USD")
    return usage


def _tag(looking: Looking, home: str) -> bool | None:
    answer = looking.read("ce", "list_cost_allocation_tags", in_region=home, TagKeys=[PROJECT])
    if answer is None:
        return None
    active = any(tag.get("Status") == "Active" for tag in answer.get("CostAllocationTags", []))
    looking.found(f"cost allocation tag {PROJECT}", "active" if active else "not active")
    return active

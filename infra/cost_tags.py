"""Tags that every resource carries, so that costs can be told apart. Plain values."""

from __future__ import annotations

from infra.settings.budget import BudgetSettings
from infra.site import Site

PROJECT = "Project"
"""The cost-allocation tag that the budget filters by; its value is the site's name, of one stack in one environment."""


def cost_tags(site: Site, budget: BudgetSettings, *, environment: str, stack: str) -> dict[str, str]:
    """Default tags of the provider; nodes that Karpenter starts need them in their node class too."""
    return {
        PROJECT: site.name,
        "Environment": environment,
        "Stack": stack,
        "Owner": budget.owner,
        "CostCenter": budget.cost_center,
        "ManagedBy": "eagle3-kit",
    }

"""What a deployment may cost, and to whom its costs are attributed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra.settings.section import Section

TagValue = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[\w .:/=+@-]+$")]


class BudgetSettings(Section):
    """A monthly budget of one stack; it warns, it stops nothing."""

    monthly_usd: float = Field(
        default=1500.0,
        gt=0,
        le=10_000_000,
        description="US dollars a month; more than 0, since a budget of 0 would always be exceeded",
    )
    notify_percent: tuple[Annotated[float, Field(gt=0, le=1000)], ...] = Field(
        default=(80.0, 100.0), min_length=1, max_length=4, description="shares of the budget, once spent, that warn"
    )
    notify_forecast: bool = Field(default=True, description="warn also when the month is forecast to exceed the budget")
    activate_tag: bool = Field(
        default=False,
        description="activate the cost-allocation tag; only the management account may, and only a day after the first "
        "resource carries it. Until then the budget counts nothing",
    )
    owner: TagValue = Field(default="platform", description="tag Owner of every resource")
    cost_center: TagValue = Field(default="unassigned", description="tag CostCenter of every resource")

"""Alarms and dashboard of a stack, from what it has that can be watched."""

from __future__ import annotations

from infra.constructs.operations.alarms import Alarms, AlarmsProps
from infra.constructs.operations.dashboard import Dashboard, DashboardProps
from infra.observability.watched import Watched
from infra.settings.alarms import AlarmSettings
from infra.settings.budget import BudgetSettings
from infra.stacks.base import KitStack


def observe(
    stack: KitStack, settings: AlarmSettings, budget: BudgetSettings, *, watched: Watched, topic_arn: str
) -> tuple[str, ...]:
    """Make both; returns the names of the alarms that end a rollout."""
    alarms = Alarms(
        stack, "Alarms", AlarmsProps(site=stack.site, settings=settings, watched=watched, topic_arn=topic_arn)
    )
    dashboard = Dashboard(
        stack,
        "Dashboard",
        DashboardProps(
            site=stack.site,
            settings=settings,
            watched=watched,
            alarm_arns=tuple(made.arn for made in alarms.alarms),
            monthly_usd=budget.monthly_usd,
        ),
    )
    stack.output("DashboardName", dashboard.dashboard_name, "CloudWatch dashboard of the stack")
    return alarms.rollback_names

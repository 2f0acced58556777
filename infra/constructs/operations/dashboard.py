"""One dashboard a stack. Knows no metrics: infra/observability/dashboard_body.py says what is shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.observability.dashboard_body import dashboard_body
from infra.observability.watched import Watched
from infra.settings.alarms import AlarmSettings
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class DashboardProps:
    """What the dashboard needs."""

    site: Site
    settings: AlarmSettings
    """Whose lines are drawn."""
    watched: Watched
    """What the stack has."""
    alarm_arns: tuple[str, ...]
    """Alarms whose state is shown."""
    monthly_usd: float
    """The budget, shown as text: CloudWatch has no costs of one tag."""


class Dashboard(Construct):
    """The dashboard, named like the site."""

    def __init__(self, scope: Any, id: str, props: DashboardProps) -> None:
        super().__init__(scope, id)
        body = dashboard_body(
            props.watched,
            props.settings,
            title=props.site.name,
            region=props.site.region,
            alarm_arns=props.alarm_arns,
            monthly_usd=props.monthly_usd,
        )
        dashboard = aws.CloudwatchDashboard(
            self, "Dashboard", dashboard_name=props.site.name, dashboard_body=json.dumps(body)
        )
        self.dashboard_name: str = dashboard.dashboard_name

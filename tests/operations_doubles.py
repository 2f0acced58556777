"""One stack with everything that is operated: keys, logs, alarms, dashboards, budget. Synthesized once."""

from __future__ import annotations

import dataclasses
from functools import cache

from infra.constructs.foundation.encryption import Encryption, EncryptionProps
from infra.constructs.operations.alarms import Alarms, AlarmsProps
from infra.constructs.operations.budget import Budget, BudgetProps
from infra.constructs.operations.dashboard import Dashboard, DashboardProps
from infra.constructs.operations.log_groups import (
    LogGroups,
    LogGroupSpec,
    LogGroupsProps,
    build_log_group,
    endpoint_log_group,
)
from infra.constructs.operations.notifications import Notifications, NotificationsProps
from infra.cost_tags import PROJECT
from infra.framework import Output
from infra.observability.watched import Watched
from infra.settings.alarms import AlarmSettings
from infra.settings.budget import BudgetSettings
from infra_doubles import SITE, synthesize

ENDPOINT_SITE = dataclasses.replace(SITE, name="eagle3-test-small")
CLUSTER_SITE = dataclasses.replace(SITE, name="eagle3-test-large")
ENDPOINT = Watched(endpoint_name=ENDPOINT_SITE.named("endpoint"), gpu_memory_mib=23028)
CLUSTER = Watched(
    cluster_name=CLUSTER_SITE.named("cluster"),
    gpu_memory_mib=8 * 40960,
    spot_rule_name=CLUSTER_SITE.named("spot-interruption"),
    interruption_queue_name=CLUSTER_SITE.named("interruption"),
    bootstrap_project_name=CLUSTER_SITE.named("bootstrap"),
    load_balancer_suffix="app/edge/0123456789abcdef",
)
ALARM_SETTINGS = AlarmSettings(emails=("ops@example.org",), webhooks=("https://example.org/hook",))
BUDGET_SETTINGS = BudgetSettings(monthly_usd=1234.5, activate_tag=True)
GROUPS = (
    LogGroupSpec(id="Endpoint", name=endpoint_log_group(ENDPOINT_SITE.named("endpoint")), kind="metrics"),
    LogGroupSpec(id="Bootstrap", name=build_log_group(ENDPOINT_SITE.named("bootstrap")), kind="records"),
)


@cache
def operations():
    """A stack with the alarms and dashboards of an endpoint and of a cluster, one topic, one budget, two log groups."""

    def build(stack):
        keys = Encryption(
            stack, "Encryption", EncryptionProps(site=ENDPOINT_SITE, domains=("logs", "notifications"))
        ).keys
        LogGroups(
            stack,
            "Logs",
            LogGroupsProps(site=ENDPOINT_SITE, key_arn=keys["logs"].arn, retention_days=365, groups=GROUPS),
        )
        notifications = Notifications(
            stack,
            "Notifications",
            NotificationsProps(
                site=ENDPOINT_SITE,
                key_arn=keys["notifications"].arn,
                emails=ALARM_SETTINGS.emails,
                webhooks=ALARM_SETTINGS.webhooks,
            ),
        )
        for id, site, watched in (("Small", ENDPOINT_SITE, ENDPOINT), ("Large", CLUSTER_SITE, CLUSTER)):
            alarms = Alarms(
                stack,
                f"{id}Alarms",
                AlarmsProps(site=site, settings=ALARM_SETTINGS, watched=watched, topic_arn=notifications.topic_arn),
            )
            Output(stack, f"{id}Rollback", value=list(alarms.rollback_names))
            Dashboard(
                stack,
                f"{id}Dashboard",
                DashboardProps(
                    site=site,
                    settings=ALARM_SETTINGS,
                    watched=watched,
                    alarm_arns=tuple(made.arn for made in alarms.alarms),
                    monthly_usd=BUDGET_SETTINGS.monthly_usd,
                ),
            )
        Budget(
            stack,
            "Budget",
            BudgetProps(
                site=ENDPOINT_SITE,
                settings=BUDGET_SETTINGS,
                tag_key=PROJECT,
                tag_value=ENDPOINT_SITE.name,
                topic_arn=notifications.budget_topic_arn,
                emails=ALARM_SETTINGS.emails,
            ),
        )

    return synthesize(build)

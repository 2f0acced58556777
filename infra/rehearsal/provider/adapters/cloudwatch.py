"""Alarms, dashboards, and the policies by which services write logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Made, Recorded, call, fill
from infra.rehearsal.provider.templates import State


def _dimensions(values: Mapping[str, str] | None) -> list[dict[str, str]] | None:
    return [{"Name": name, "Value": value} for name, value in sorted((values or {}).items())] or None


def _metrics(state: State) -> list[dict[str, Any]] | None:
    """Queries, with the metric and its statistic as two levels instead of one."""
    queries = []
    for query in state.get("metric_query") or []:
        entry = {
            "Id": query["id"],
            "Expression": query.get("expression"),
            "Label": query.get("label"),
            "Period": query.get("period"),
            "AccountId": query.get("account_id"),
            "ReturnData": bool(query.get("return_data")),
        }
        for metric in query.get("metric") or []:
            entry["MetricStat"] = {
                "Metric": {
                    "Namespace": metric.get("namespace"),
                    "MetricName": metric.get("metric_name"),
                    "Dimensions": _dimensions(metric.get("dimensions")),
                },
                "Period": metric.get("period"),
                "Stat": metric.get("stat"),
                "Unit": metric.get("unit"),
            }
        queries.append(entry)
    return queries or None


_PUT_ALARM = fill(
    "put_metric_alarm",
    Dimensions=lambda state: _dimensions(state.get("dimensions")),
    Metrics=_metrics,
    EvaluateLowSampleCountPercentile="{evaluate_low_sample_count_percentiles}",
)
_PUT_DASHBOARD = fill("put_dashboard")
_PUT_LOG_POLICY = fill("put_resource_policy")

RESOURCES = {
    "aws_cloudwatch_metric_alarm": Made(
        service="cloudwatch",
        create=_PUT_ALARM,
        id="{alarm_name}",
        read=call("describe_alarms", AlarmNames=["{alarm_name}"]),
        found="MetricAlarms[0]",
        outputs={"arn": "AlarmArn"},
        update=[_PUT_ALARM],
        delete=call("delete_alarms", AlarmNames=["{alarm_name}"]),
    ),
    "aws_cloudwatch_composite_alarm": Recorded(
        reason="the local AWS has no composite alarms",
        id="{alarm_name}",
        outputs={"arn": "arn:{partition}:cloudwatch:{region}:{account_id}:alarm:{alarm_name}"},
    ),
    "aws_cloudwatch_dashboard": Made(
        service="cloudwatch",
        create=_PUT_DASHBOARD,
        id="{dashboard_name}",
        read=call("get_dashboard", DashboardName="{dashboard_name}"),
        outputs={"dashboard_arn": "DashboardArn"},
        update=[_PUT_DASHBOARD],
        delete=call("delete_dashboards", DashboardNames=["{dashboard_name}"]),
    ),
    "aws_cloudwatch_log_resource_policy": Made(
        service="logs",
        create=_PUT_LOG_POLICY,
        id="{policy_name}",
        read=call("describe_resource_policies"),
        found=lambda answer, state: [
            policy for policy in answer["resourcePolicies"] if policy["policyName"] == state["policy_name"]
        ],
        update=[_PUT_LOG_POLICY],
        delete=call("delete_resource_policy", policyName="{policy_name}"),
    ),
}

"""The alarms of a stack, made from the catalogue, each with its runbook's address in its text.

Knows no particular alarm. Every alarm tells the topic when it begins and when it ends. `rollback_names` are those that
end a SageMaker deployment; they are references, so the endpoint waits for the alarms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.observability.alarm_catalogue import Alarm, alarms_of, expression_of, number, runbook_url
from infra.observability.watched import Metric, Watched
from infra.settings.alarms import AlarmSettings
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class AlarmsProps:
    """What the alarms need."""

    site: Site
    settings: AlarmSettings
    watched: Watched
    """What the stack has."""
    topic_arn: str
    """Where they are sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RaisedAlarm:
    """One alarm that was made."""

    alarm: Alarm
    name: str
    """A reference."""
    arn: str
    """A reference."""


class Alarms(Construct):
    """Every alarm of the catalogue that the stack has the facts for."""

    def __init__(self, scope: Any, id: str, props: AlarmsProps) -> None:
        super().__init__(scope, id)
        self.alarms: tuple[RaisedAlarm, ...] = tuple(self._make(alarm, props) for alarm in alarms_of(props.watched))
        self.rollback_names: tuple[str, ...] = tuple(made.name for made in self.alarms if made.alarm.rollback)
        """Names for `auto_rollback_configuration`."""

    def _make(self, alarm: Alarm, props: AlarmsProps) -> RaisedAlarm:
        settings, site = props.settings, props.site
        made = aws.CloudwatchMetricAlarm(
            self,
            "".join(word.capitalize() for word in alarm.name.split("-")),
            alarm_name=site.named(alarm.name),
            alarm_description=f"{alarm.meaning} Severity: {alarm.severity}. "
            f"Runbook: {runbook_url(alarm.name, settings)}",
            comparison_operator=alarm.comparison,
            threshold=number(alarm.threshold, settings),
            evaluation_periods=int(number(alarm.periods, settings)),
            datapoints_to_alarm=int(number(alarm.datapoints, settings)),
            treat_missing_data=alarm.missing,
            actions_enabled=True,
            alarm_actions=[props.topic_arn],
            ok_actions=[props.topic_arn],
            **_what(alarm, settings, props.watched),
        )
        return RaisedAlarm(alarm=alarm, name=made.alarm_name, arn=made.arn)


def _what(alarm: Alarm, settings: AlarmSettings, watched: Watched) -> dict[str, Any]:
    """The metric, or the queries of an expression."""
    expression = expression_of(alarm, settings, watched)
    if expression is None:
        [metric] = alarm.metrics
        percentile = metric.statistic.startswith("p")
        values = {
            "namespace": watched.namespace(metric),
            "metric_name": metric.name,
            "dimensions": watched.dimensions(metric.of),
            "period": metric.period_s,
            "extended_statistic" if percentile else "statistic": metric.statistic,
        }
        # "ignore" would keep an alarm still below 1000 requests a period.
        return values | ({"evaluate_low_sample_count_percentiles": "evaluate"} if percentile else {})
    result = aws.CloudwatchMetricAlarmMetricQuery(
        id="result", expression=expression, label=alarm.name, return_data=True
    )
    return {"metric_query": [result, *(_query(metric, watched) for metric in alarm.metrics)]}


def _query(metric: Metric, watched: Watched) -> Any:
    return aws.CloudwatchMetricAlarmMetricQuery(
        id=metric.id,
        metric=aws.CloudwatchMetricAlarmMetricQueryMetric(
            namespace=watched.namespace(metric),
            metric_name=metric.name,
            dimensions=watched.dimensions(metric.of),
            period=metric.period_s,
            stat=metric.statistic,
        ),
    )

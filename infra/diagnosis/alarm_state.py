"""The alarm in CloudWatch: its state, how it got there, and the metrics that it and its page look at.

Facts: `AlarmFacts` and `MetricFacts`. Knows no causes. The alarm's live definition goes before the catalogue: its line
may have been set otherwise, and so may the namespace of the runtime's metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking, utc
from infra.diagnosis.series import Series
from infra.diagnosis.watched_metrics import metrics_of, watched_of
from infra.observability.alarm_catalogue import ALARMS, BUDGET, number
from infra.observability.watched import Metric
from infra.settings.alarms import AlarmSettings

_QUERIES_A_CALL = 100
# A leak shows over hours, and what an alarm's minutes are compared with lies before them.
_LEAST = {"gpu-memory-high": timedelta(hours=6)}


@dataclass(frozen=True, kw_only=True, slots=True)
class AlarmFacts:
    """One alarm as CloudWatch has it."""

    state: str
    """"ALARM", "OK" or "INSUFFICIENT_DATA"."""
    began: datetime | None
    """Since when it is on; None unless it is."""
    threshold: float | None
    """Its line, in the metric's unit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricFacts:
    """Metrics of the time looked at."""

    began: datetime
    """From when values belong to what the alarm is about; those before are what they are compared with."""
    series: tuple[Series, ...]

    def get(self, metric: str, statistic: str | None = None) -> Series | None:
        """The series of a metric; None if it has no data."""
        return next(
            (
                one
                for one in self.series
                if one.points and one.metric == metric and statistic in (None, one.statistic)
            ),
            None,
        )  # fmt: skip


class AlarmCollector:
    """Reads the alarm and its metrics."""

    source: str = "CloudWatch"

    def wanted(self, context: Context) -> bool:
        """For every alarm; a budget has none."""
        return context.aws is not None and context.alarm != BUDGET

    def collect(self, context: Context) -> Evidence:
        """State, history, values."""
        looking = Looking(self.source, context)
        alarm, live = _alarm(looking, context)
        if alarm is not None:
            _history(looking, context)
        return looking.evidence(alarm, _metrics(looking, context, alarm, live))


def _alarm(looking: Looking, context: Context) -> tuple[AlarmFacts | None, dict[str, Any]]:
    name = context.named(context.alarm)
    answer = looking.read("cloudwatch", "describe_alarms", AlarmNames=[name])
    if answer is None:
        return None, {}
    if not answer.get("MetricAlarms"):
        looking.found(f"alarm {name}", "does not exist in this account and region")
        return None, {}
    live: dict[str, Any] = answer["MetricAlarms"][0]
    state = live.get("StateValue", "")
    when = live.get("StateTransitionedTimestamp") or live.get("StateUpdatedTimestamp")
    since = None if when is None else utc(when)
    looking.found(f"alarm {name}", f"{state}: {live.get('StateReason') or 'no reason given'}", since)
    threshold = live.get("Threshold")
    return AlarmFacts(state=state, began=since if state == "ALARM" else None, threshold=threshold), live


def _history(looking: Looking, context: Context) -> None:
    answer = looking.read(
        "cloudwatch", "describe_alarm_history", AlarmName=context.named(context.alarm),
        HistoryItemType="StateUpdate", StartDate=context.since, EndDate=context.now, MaxRecords=20,
    )  # fmt: skip
    for item in reversed((answer or {}).get("AlarmHistoryItems", [])):
        looking.found("alarm history", item.get("HistorySummary", ""), utc(item["Timestamp"]))


def _metrics(looking: Looking, context: Context, alarm: AlarmFacts | None, live: dict[str, Any]) -> MetricFacts | None:
    watched = watched_of(context.site, context.stack, _namespace(live))
    metrics = metrics_of(context.alarm, watched)
    if not metrics:
        return None
    since = min(context.since, context.now - _LEAST.get(context.alarm, timedelta()))
    queries: list[dict[str, Any]] = [
        {
            "Id": f"q{index}",
            "MetricStat": {
                "Metric": {
                    "Namespace": watched.namespace(metric),
                    "MetricName": metric.name,
                    "Dimensions": [
                        {"Name": key, "Value": value} for key, value in watched.dimensions(metric.of).items()
                    ],
                },
                "Period": _period_s(metric, context.now - since),
                "Stat": metric.statistic,
            },
        }
        for index, metric in enumerate(metrics)
    ]
    assert len(queries) <= _QUERIES_A_CALL
    answer = looking.read(
        "cloudwatch", "get_metric_data", MetricDataQueries=queries, StartTime=since, EndTime=context.now,
        ScanBy="TimestampAscending",
    )  # fmt: skip
    if answer is None:
        return None
    by_id = {one["Id"]: one for one in answer.get("MetricDataResults", [])}
    series = tuple(
        Series(
            metric=metric.name,
            statistic=metric.statistic,
            period_s=query["MetricStat"]["Period"],
            points=tuple(
                sorted((utc(when), value) for when, value in zip(found["Timestamps"], found["Values"], strict=True))
            ),
        )
        for metric, query in zip(metrics, queries, strict=True)
        if (found := by_id.get(query["Id"])) is not None
    )
    for one in series:
        looking.found(
            f"{one.metric}, {one.statistic} of {one.period_s} s", one.said(), one.last[0] if one.last else None
        )
    return MetricFacts(began=_began(context, alarm), series=series)


def _namespace(live: dict[str, Any]) -> str:
    """Namespace of the runtime's metrics, as the live alarm has it."""
    queries = [query.get("MetricStat", {}).get("Metric", {}) for query in live.get("Metrics", [])]
    names = [live.get("Namespace"), *(metric.get("Namespace") for metric in queries)]
    return next((name for name in names if name and not name.startswith("AWS/")), "Eagle3")


def _period_s(metric: Metric, span: timedelta) -> int:
    """The metric's own period, or a minute, or longer where the time looked at is too long for it."""
    period = metric.period_s
    if span > timedelta(hours=3):  # values by the second are kept for three hours
        period = max(period, 60)
    while span.total_seconds() / period > 1440:
        period = 300 if period < 300 else period * 2
    return period


def _began(context: Context, alarm: AlarmFacts | None) -> datetime:
    """When what the alarm saw began: its state less what it takes to get there; else the last quarter of the time."""
    if alarm is None or alarm.began is None:
        return context.now - (context.now - context.since) / 4
    definition = next(one for one in ALARMS if one.name == context.alarm)
    periods = number(definition.datapoints, AlarmSettings())
    return alarm.began - timedelta(seconds=periods * max(metric.period_s for metric in definition.metrics))

"""Every alarm: what it watches, where the line is, what it means. Pure data.

Knows no framework and no stack: an alarm belongs to every stack that has the facts which it needs. Invariant: the name
is that of its runbook (docs/runbooks/NAME.md), missing data is decided on, and a period below a minute is used only
with metrics of the runtime. A threshold, a number of periods or a word in braces inside an expression that is the name
of a field of `AlarmSettings` takes its value from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infra.observability.watched import Fact, Metric, Watched
from infra.settings.alarms import AlarmSettings

BUDGET = "budget"
"""Runbook of the budget's notifications, which AWS Budgets sends itself."""
BUDGET_MEANING = "The stack has cost, or is forecast to cost, more than the share of its budget that warns."


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """One alarm."""

    name: str
    """Kebab case."""
    meaning: str
    """One sentence; the beginning of the notification."""
    severity: Literal["page", "ticket"]
    """page: users notice; ticket: look at it today."""
    needs: tuple[Fact, ...]
    """What a stack must have."""
    metrics: tuple[Metric, ...]
    """One without an expression; else those that it names."""
    expression: str | None = None
    """Metric math."""
    comparison: Literal[
        "GreaterThanThreshold", "GreaterThanOrEqualToThreshold", "LessThanThreshold", "LessThanOrEqualToThreshold"
    ]
    threshold: float | str
    periods: int | str
    """Periods looked at."""
    datapoints: int | str
    """How many of them must be beyond the line."""
    missing: Literal["breaching", "notBreaching", "ignore", "missing"]
    rollback: bool = False
    """Whether it ends the deployment of a new version."""


ALARMS: tuple[Alarm, ...] = (
    Alarm(
        name="e2e-latency-p99", severity="page", needs=("runtime_metrics",), rollback=True,
        meaning="One request in a hundred takes longer from its arrival to its last token than the agreed line.",
        metrics=(Metric(id="latency", name="E2ELatencyMs", statistic="p99", period_s=30),),
        comparison="GreaterThanThreshold", threshold="e2e_p99_ms", periods=6, datapoints=4, missing="notBreaching",
    ),
    Alarm(
        name="model-latency-p99", severity="page", needs=("no_runtime_metrics", "endpoint"), rollback=True,
        meaning="One request in a hundred takes the container longer than the agreed line, as SageMaker measures it.",
        metrics=(Metric(id="latency", namespace="AWS/SageMaker", name="ModelLatency", statistic="p99", of="variant"),),
        expression="latency / 1000",  # microseconds
        comparison="GreaterThanThreshold", threshold="e2e_p99_ms", periods=5, datapoints=3, missing="notBreaching",
    ),
    Alarm(
        name="acceptance-rate-low", severity="ticket", needs=("runtime_metrics",),
        meaning="Cycles that draft emit so few tokens that speculation costs more than it brings.",
        metrics=(Metric(id="tau", name="AcceptanceRate", statistic="Average"),),
        comparison="LessThanThreshold", threshold="acceptance_rate", periods=15, datapoints=10,
        missing="notBreaching",  # no drafted cycle, no rate
    ),
    Alarm(
        name="queue-growing", severity="page", needs=("runtime_metrics",),
        meaning="More requests wait than should, and their number does not fall.",
        metrics=(Metric(id="depth", name="QueueDepth", statistic="Average"),),
        expression="IF(depth >= {queue_depth} AND DIFF(depth) >= 0, 1, 0)",
        comparison="GreaterThanOrEqualToThreshold", threshold=1, periods=6, datapoints=5, missing="notBreaching",
    ),
    Alarm(
        name="gpu-memory-high", severity="ticket", needs=("runtime_metrics", "gpu"),
        meaning="The GPUs' memory is nearly full, so the next larger batch may end the engine.",
        metrics=(Metric(id="used", name="GPUMemoryUsedMB", statistic="Maximum"),),
        expression="used / {gpu_memory_mib}",
        comparison="GreaterThanThreshold", threshold="gpu_memory_share", periods=5, datapoints=5,
        missing="notBreaching",
    ),
    Alarm(
        name="no-data", severity="page", needs=("runtime_metrics", "always_on"),
        meaning="No replica reports anything, so nothing serves or nothing is measured.",
        metrics=(Metric(id="reports", name="QueueDepth", statistic="SampleCount"),),
        comparison="LessThanThreshold", threshold=1, periods="no_data_minutes", datapoints="no_data_minutes",
        missing="breaching",
    ),
    Alarm(
        name="endpoint-5xx", severity="page", needs=("endpoint",), rollback=True,
        meaning="The endpoint answers too large a share of its requests with a server error.",
        # 1 for a request that failed, 0 for one that did not: the mean is the share.
        metrics=(
            Metric(id="errors", namespace="AWS/SageMaker", name="Invocation5XXErrors", statistic="Average",
                   of="variant"),
        ),
        comparison="GreaterThanThreshold", threshold="server_error_share", periods=5, datapoints=3,
        missing="notBreaching",
    ),
    Alarm(
        name="async-backlog", severity="ticket", needs=("asynchronous",),
        meaning="The oldest asynchronous request has waited longer than a start from zero takes.",
        metrics=(
            Metric(id="age", namespace="AWS/SageMaker", name="ApproximateAgeOfOldestRequest", statistic="Maximum",
                   of="endpoint"),
        ),
        comparison="GreaterThanThreshold", threshold="backlog_age_s", periods=5, datapoints=5, missing="notBreaching",
    ),
    Alarm(
        name="load-balancer-5xx", severity="page", needs=("load_balancer",),
        meaning="The load balancer answers too large a share of requests with a server error, its own included.",
        metrics=(
            Metric(id="target", namespace="AWS/ApplicationELB", name="HTTPCode_Target_5XX_Count", statistic="Sum",
                   of="load_balancer"),
            Metric(id="own", namespace="AWS/ApplicationELB", name="HTTPCode_ELB_5XX_Count", statistic="Sum",
                   of="load_balancer"),
            Metric(id="requests", namespace="AWS/ApplicationELB", name="RequestCount", statistic="Sum",
                   of="load_balancer"),
        ),
        # A request that found no target is in `own` only. SUM takes a series without data as absent.
        expression="SUM([target, own]) / SUM([requests, own])",
        comparison="GreaterThanThreshold", threshold="server_error_share", periods=5, datapoints=3,
        missing="notBreaching",
    ),
    Alarm(
        name="spot-interruptions", severity="ticket", needs=("spot_rule",),
        meaning="AWS takes spot instances back so often that capacity in these zones is running out.",
        metrics=(
            Metric(id="interruptions", namespace="AWS/Events", name="TriggeredRules", statistic="Sum", period_s=3600,
                   of="spot_rule"),
        ),
        comparison="GreaterThanOrEqualToThreshold", threshold="spot_interruptions_per_hour", periods=1, datapoints=1,
        missing="notBreaching",
    ),
    Alarm(
        name="interruption-queue-stuck", severity="page", needs=("interruption_queue",),
        meaning="Karpenter does not read its interruption queue, so spot nodes end without draining.",
        metrics=(
            Metric(id="age", namespace="AWS/SQS", name="ApproximateAgeOfOldestMessage", statistic="Maximum",
                   of="interruption_queue"),
        ),
        comparison="GreaterThanThreshold", threshold=60, periods=3, datapoints=3, missing="notBreaching",
    ),
    Alarm(
        name="pods-unschedulable", severity="page", needs=("cluster",),
        meaning="Pods have waited for a node longer than starting one takes.",
        metrics=(
            Metric(id="pods", namespace="AWS/EKS", name="scheduler_pending_pods_UNSCHEDULABLE", statistic="Maximum",
                   of="cluster"),
        ),
        comparison="GreaterThanOrEqualToThreshold", threshold=1, periods="unschedulable_minutes",
        datapoints="unschedulable_minutes", missing="notBreaching",
    ),
    Alarm(
        name="bootstrap-failed", severity="ticket", needs=("bootstrap",),
        meaning="Installing or updating what runs in the cluster failed, so the cluster is not what the code says.",
        metrics=(
            Metric(id="builds", namespace="AWS/CodeBuild", name="FailedBuilds", statistic="Sum", period_s=300,
                   of="bootstrap"),
        ),
        comparison="GreaterThanOrEqualToThreshold", threshold=1, periods=1, datapoints=1, missing="notBreaching",
    ),
)  # fmt: skip


def alarms_of(watched: Watched) -> tuple[Alarm, ...]:
    """Alarms of a stack, in the catalogue's order."""
    return tuple(alarm for alarm in ALARMS if watched.facts.issuperset(alarm.needs))


def number(value: float | str, settings: AlarmSettings) -> float:
    """A threshold or number of periods: itself, or the setting that it names."""
    return float(getattr(settings, value)) if isinstance(value, str) else float(value)


def expression_of(alarm: Alarm, settings: AlarmSettings, watched: Watched) -> str | None:
    """An alarm's metric math with its numbers filled in."""
    if alarm.expression is None:
        return None
    return alarm.expression.format(gpu_memory_mib=watched.gpu_memory_mib, **settings.model_dump())


def runbook_url(name: str, settings: AlarmSettings) -> str:
    """Address of a runbook."""
    return f"{settings.runbook_base_url.rstrip('/')}/{name}.md"


def runbook_index() -> str:
    """The alarms as a Markdown table, as docs/runbooks/README.md has it."""
    rows = ["| alarm | severity | where there is | meaning |", "|---|---|---|---|"]
    for alarm in ALARMS:
        needs = ", ".join(need.replace("_", " ") for need in alarm.needs)
        rows.append(f"| [{alarm.name}]({alarm.name}.md) | {alarm.severity} | {needs} | {alarm.meaning} |")
    rows.append(f"| [{BUDGET}]({BUDGET}.md) | ticket | a stack | {BUDGET_MEANING} |")
    return "\n".join(rows) + "\n"

"""What a stack's dashboard shows, as CloudWatch's JSON grammar has it.

Knows no framework: names may be references, put into the text as they are. Invariant: every metric is of the runtime's
catalogue or of `AWS_METRICS`, under the dimensions it is published with; widgets lie in a grid 24 wide, none overlaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.observability.watched import Fact, Metric, Watched
from infra.settings.alarms import AlarmSettings

_WIDTH = 24
_HEIGHT = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Graph:
    """One graph."""

    title: str
    needs: tuple[Fact, ...]
    metrics: tuple[Metric, ...]
    line: str | None = None
    """Field of `AlarmSettings` that is drawn as a line."""
    unit: str = ""
    """Label of the axis."""


def _metric(name: str, statistic: str, *, id: str | None = None) -> Metric:
    return Metric(id=id or name[0].lower() + name[1:], name=name, statistic=statistic, period_s=10)


def _aws(namespace: str, name: str, statistic: str, of: Any, *, id: str | None = None) -> Metric:
    return Metric(id=id or name[0].lower() + name[1:], namespace=namespace, name=name, statistic=statistic, of=of)


GRAPHS: tuple[Graph, ...] = (
    Graph(
        title="End-to-end latency", needs=("runtime_metrics",), line="e2e_p99_ms", unit="ms",
        metrics=(_metric("E2ELatencyMs", "p50", id="e2e50"), _metric("E2ELatencyMs", "p99", id="e2e99")),
    ),
    Graph(
        title="Time to first token", needs=("runtime_metrics",), unit="ms",
        metrics=(_metric("TimeToFirstTokenMs", "p50", id="ttft50"), _metric("TimeToFirstTokenMs", "p99", id="ttft99")),
    ),
    Graph(
        title="Output tokens per second and replica", needs=("runtime_metrics",), unit="tokens/s",
        metrics=(_metric("TokensPerSecond", "Average"),),
    ),
    Graph(
        title="Acceptance length", needs=("runtime_metrics",), line="acceptance_rate", unit="tokens/cycle",
        metrics=(_metric("AcceptanceRate", "Average"),),
    ),
    Graph(
        title="Time of a cycle: draft, verify", needs=("runtime_metrics",), unit="ms",
        metrics=(_metric("DraftLatencyMs", "Average"), _metric("VerifyLatencyMs", "Average")),
    ),
    Graph(
        title="Requests waiting per replica", needs=("runtime_metrics",), line="queue_depth", unit="requests",
        metrics=(_metric("QueueDepth", "Average", id="queue"), _metric("QueueDepth", "Maximum", id="longest")),
    ),
    Graph(
        title="GPU memory of the fullest replica", needs=("runtime_metrics", "gpu"), unit="MiB",
        metrics=(_metric("GPUMemoryUsedMB", "Maximum"),),
    ),
    Graph(
        title="Requests rejected", needs=("runtime_metrics",), unit="requests",
        metrics=(_metric("RejectedRequests", "Sum"),),
    ),
    Graph(
        title="Endpoint: errors", needs=("endpoint",), unit="requests",
        metrics=(
            _aws("AWS/SageMaker", "Invocation4XXErrors", "Sum", "variant"),
            _aws("AWS/SageMaker", "Invocation5XXErrors", "Sum", "variant"),
        ),
    ),
    Graph(
        title="Endpoint: time in the container", needs=("endpoint",), unit="µs",
        metrics=(_aws("AWS/SageMaker", "ModelLatency", "p99", "variant"),),
    ),
    Graph(
        title="Asynchronous backlog", needs=("asynchronous",),
        metrics=(
            _aws("AWS/SageMaker", "ApproximateBacklogSize", "Maximum", "endpoint"),
            _aws("AWS/SageMaker", "ApproximateAgeOfOldestRequest", "Maximum", "endpoint"),
        ),
    ),
    Graph(
        title="Load balancer: requests and errors", needs=("load_balancer",), unit="requests",
        metrics=(
            _aws("AWS/ApplicationELB", "RequestCount", "Sum", "load_balancer"),
            _aws("AWS/ApplicationELB", "HTTPCode_Target_5XX_Count", "Sum", "load_balancer", id="target5xx"),
            _aws("AWS/ApplicationELB", "HTTPCode_ELB_5XX_Count", "Sum", "load_balancer", id="own5xx"),
        ),
    ),
    Graph(
        title="Load balancer: time to first byte", needs=("load_balancer",), unit="s",
        metrics=(_aws("AWS/ApplicationELB", "TargetResponseTime", "p99", "load_balancer"),),
    ),
    Graph(
        title="Pods that wait for a node", needs=("cluster",), unit="pods",
        metrics=(
            _aws("AWS/EKS", "scheduler_pending_pods", "Maximum", "cluster", id="pending"),
            _aws("AWS/EKS", "scheduler_pending_pods_UNSCHEDULABLE", "Maximum", "cluster", id="unschedulable"),
        ),
    ),
    Graph(
        title="Spot interruptions", needs=("spot_rule",), unit="instances",
        metrics=(_aws("AWS/Events", "TriggeredRules", "Sum", "spot_rule"),),
    ),
)  # fmt: skip


def dashboard_body(
    watched: Watched, settings: AlarmSettings, *, title: str, region: str, alarm_arns: Sequence[str], monthly_usd: float
) -> dict[str, Any]:
    """The dashboard; `title` is shown above it."""
    graphs = [_graph(graph, watched, settings, region) for graph in GRAPHS if watched.facts.issuperset(graph.needs)]
    if "runtime_metrics" in watched.facts:
        graphs.insert(5, _by_depth(watched, region))
        graphs.append(_rejected_by_reason(watched, region))
    graphs.append(_charges(region))
    text = (
        f"# {title}\nRunbooks: {settings.runbook_base_url} · budget: {monthly_usd:,.2f} USD a month, "
        "[state](https://console.aws.amazon.com/billing/home#/budgets)"
    )
    head: list[dict[str, Any]] = [
        {"type": "text", "x": 0, "y": 0, "width": _WIDTH, "height": 2, "properties": {"markdown": text}}
    ]
    y = 2
    if alarm_arns:
        status = {"title": "Alarms", "alarms": list(alarm_arns), "sortBy": "stateUpdatedTimestamp"}
        head.append({"type": "alarm", "x": 0, "y": y, "width": _WIDTH, "height": 3, "properties": status})
        y += 3
    third = _WIDTH // 3
    widgets = [
        {
            "type": "metric",
            "x": (number % 3) * third,
            "y": y + (number // 3) * _HEIGHT,
            "width": third,
            "height": _HEIGHT,
            "properties": graph,
        }
        for number, graph in enumerate(graphs)
    ]
    return {"start": "-PT3H", "periodOverride": "inherit", "widgets": head + widgets}


def _graph(graph: Graph, watched: Watched, settings: AlarmSettings, region: str) -> dict[str, Any]:
    properties = _properties(graph.title, region, [_row(metric, watched) for metric in graph.metrics], graph.unit)
    if graph.line is not None:
        properties["annotations"] = {"horizontal": [{"label": "alarm", "value": getattr(settings, graph.line)}]}
    return properties


def _row(metric: Metric, watched: Watched) -> list[Any]:
    dimensions = [text for pair in watched.dimensions(metric.of).items() for text in pair]
    label = f"{metric.name} {metric.statistic}"
    options = {"stat": metric.statistic, "period": metric.period_s, "label": label}
    return [watched.namespace(metric), metric.name, *dimensions, options]


def _by_depth(watched: Watched, region: str) -> dict[str, Any]:
    rows = [
        _row(Metric(id=f"depth{depth}", name=f"AcceptanceByDepth{depth}", statistic="Average", period_s=60), watched)
        for depth in range(1, watched.depth + 1)
    ]
    return _properties("Share of drafted cycles that accept at each depth", region, rows, "share")


def _rejected_by_reason(watched: Watched, region: str) -> dict[str, Any]:
    [(dimension, value)] = watched.dimensions("serving").items()
    schema = f'{{"{watched.runtime_namespace}","{dimension}","Reason"}}'
    search = f'SEARCH(\'{schema} MetricName="RejectedRequests" "{dimension}"="{value}"\', \'Sum\', 60)'
    return _properties("Requests rejected, by reason", region, [[{"expression": search, "id": "reasons"}]], "requests")


def _charges(region: str) -> dict[str, Any]:
    """AWS publishes charges in one region, for the account as a whole, where billing alerts are switched on."""
    row = ["AWS/Billing", "EstimatedCharges", "Currency", "USD", {"stat": "Maximum", "period": 21600}]
    home = region if region.startswith(("cn-", "us-gov-")) else "us-east-1"
    return _properties("Charges of the whole account this month", home, [row], "USD")


def _properties(title: str, region: str, rows: Sequence[Any], unit: str) -> dict[str, Any]:
    axis = {"min": 0, "showUnits": False} | ({"label": unit} if unit else {})
    return {
        "title": title,
        "region": region,
        "view": "timeSeries",
        "stacked": False,
        "metrics": list(rows),
        "yAxis": {"left": axis},
    }

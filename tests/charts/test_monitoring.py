"""What Prometheus and Grafana are told: scrapes, alarms like CloudWatch's, a dashboard of metrics that there are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from chart_doubles import CHARTS, ROOT, fails, merged, render, values_file
from eagle3.metrics.catalogue import CATALOGUE
from infra.observability.alarm_catalogue import ALARMS, Alarm, number, runbook_url
from infra.settings.alarms import AlarmSettings
from promql_doubles import DEAD, selectors, unknown

GPU_MIB = 24576
RULES: dict[str, Any] = {"monitoring": {"prometheusRule": {"enabled": True, "gpuMemoryMiB": GPU_MIB}}}
SETTINGS = AlarmSettings()
CLOUDWATCH_ONLY = {
    "model-latency-p99": "measured by SageMaker, where the runtime's image is not what serves",
    "endpoint-5xx": "counted by SageMaker's endpoint",
    "async-backlog": "of SageMaker's asynchronous endpoints",
    "load-balancer-5xx": "counted by AWS's load balancer",
    "spot-interruptions": "of the account's nodes, not of a release",
    "interruption-queue-stuck": "of a queue in AWS",
    "bootstrap-failed": "of a build in AWS",
}
"""Alarms without a counterpart in Prometheus, and why."""
COUNTED = re.compile(
    r"count_over_time\((?P<beyond>.*)\[(?P<window>\d+)s:(?P<step>\d+)s\]\) >= (?P<datapoints>\d+)", re.S
)


def alarms(values: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Rules by name."""
    (group,) = render(merged(RULES, values or {})).only("PrometheusRule")["spec"]["groups"]
    found = {rule["alert"]: rule for rule in group["rules"]}
    assert len(found) == len(group["rules"])
    return found


def counterparts() -> list[Alarm]:
    """Alarms of the catalogue that Prometheus can have."""
    return [alarm for alarm in ALARMS if alarm.name not in CLOUDWATCH_ONLY]


def test_every_alarm_is_in_prometheus_or_says_why_not() -> None:
    """The rules are the catalogue's alarms but for those that only AWS can measure."""
    assert set(alarms()) == {alarm.name for alarm in counterparts()}
    assert set(CLOUDWATCH_ONLY) <= {alarm.name for alarm in ALARMS}
    assert all("runtime_metrics" not in alarm.needs for alarm in ALARMS if alarm.name in CLOUDWATCH_ONLY)


@pytest.mark.parametrize("alarm", counterparts(), ids=lambda alarm: alarm.name)
def test_alarms_mean_the_same_as_in_cloudwatch(alarm: Alarm) -> None:
    """Severity, sentence and runbook are the catalogue's, and the runbook is there."""
    rule = alarms()[alarm.name]
    assert rule["labels"]["severity"] == alarm.severity
    assert rule["annotations"]["summary"] == alarm.meaning
    assert rule["annotations"]["runbook_url"] == runbook_url(alarm.name, SETTINGS)
    assert (ROOT / "docs" / "runbooks" / f"{alarm.name}.md").is_file()


@pytest.mark.parametrize("alarm", counterparts(), ids=lambda alarm: alarm.name)
def test_alarms_fire_after_as_many_data_points(alarm: Alarm) -> None:
    """As many evaluations of as many, as far apart, must be beyond the line as CloudWatch asks for."""
    expression = alarms()[alarm.name]["expr"]
    periods, datapoints = (int(number(value, SETTINGS)) for value in (alarm.periods, alarm.datapoints))
    step = alarm.metrics[0].period_s
    if alarm.missing == "breaching":
        assert f"[{periods * step // 60}m]" in expression
        assert expression.startswith("absent_over_time(")
        return
    match = COUNTED.fullmatch(expression)
    assert match is not None
    assert (int(match["step"]), int(match["window"]), int(match["datapoints"])) == (step, periods * step, datapoints)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("e2e-latency-p99", f"> {SETTINGS.e2e_p99_ms:g})"),
        ("acceptance-rate-low", f"< {SETTINGS.acceptance_rate:g})"),
        ("queue-growing", f">= {SETTINGS.queue_depth:g})"),
        ("gpu-memory-high", f"/ {GPU_MIB} > {SETTINGS.gpu_memory_share:g})"),
        ("no-data", f"[{SETTINGS.no_data_minutes}m])"),
        ("pods-unschedulable", f">= {SETTINGS.unschedulable_minutes}"),
    ],
)
def test_the_lines_are_cloudwatchs(name: str, line: str) -> None:
    """With the chart's defaults each line is that of the stacks' settings."""
    assert line in alarms()[name]["expr"]


def test_the_lines_come_by_value() -> None:
    """Every line and the folder of the runbooks can be set."""
    lines = {
        "e2eP99Ms": 750, "acceptanceRate": 1.5, "queueDepth": 12, "gpuMemoryShare": 0.9, "noDataMinutes": 7,
        "unschedulableMinutes": 30, "runbookBaseUrl": "https://wiki.example.com/runbooks",
    }  # fmt: skip
    found = alarms({"monitoring": {"prometheusRule": lines}})
    for name, text in (
        ("e2e-latency-p99", "> 750)"), ("acceptance-rate-low", "< 1.5)"), ("queue-growing", ">= 12)"),
        ("gpu-memory-high", "> 0.9)"), ("no-data", "[7m]"), ("pods-unschedulable", "[1800s:60s]) >= 30"),
    ):  # fmt: skip
        assert text in found[name]["expr"]
        assert found[name]["annotations"]["runbook_url"] == f"https://wiki.example.com/runbooks/{name}.md"


def test_alarms_that_would_always_ring_are_left_out() -> None:
    """No memory alarm without a size, no silence alarm where there may be no replica, no tau without a draft."""
    assert "gpu-memory-high" not in alarms({"monitoring": {"prometheusRule": {"gpuMemoryMiB": None}}})
    wake = {"type": "prometheus", "prometheus": {"query": "sum(rate(x[1m]))"}}
    zero = {"kind": "keda", "minReplicas": 0, "wake": wake, "prometheus": {"serverAddress": "http://prometheus:9090"}}
    assert "no-data" not in alarms({"autoscaling": zero})
    assert "acceptance-rate-low" not in alarms({"config": {"draft": None}})


@pytest.mark.parametrize("name", [alarm.name for alarm in counterparts()])
def test_alarms_ask_for_metrics_that_there_are(name: str) -> None:
    """D20 and its kind: metrics and labels of every rule exist, and each selects this release's namespace."""
    expression = alarms()[name]["expr"]
    assert not unknown(expression)
    assert all("namespace" in selector.labels for selector in selectors(expression))


def test_acceptance_is_that_of_drafted_cycles() -> None:
    """Alarm and dashboard divide by cycles that drafted: counters of all cycles would ring for load."""
    (panel,) = [panel for panel in dashboard()["panels"] if panel["title"] == "Acceptance length"]
    for expression in (alarms()["acceptance-rate-low"]["expr"], panel["targets"][0]["expr"]):
        tokens, cycles = expression.split("/", 1)
        assert "rate(eagle3_drafted_cycle_tokens_total{" in tokens
        assert "rate(eagle3_drafted_cycles_total{" in cycles


def dashboard(values: dict[str, Any] | None = None) -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    both = merged({"monitoring": {"grafanaDashboard": {"enabled": True}}}, values or {})
    (item,) = [item for item in render(both).all("ConfigMap") if "grafana_dashboard" in item["metadata"]["labels"]]
    board: dict[str, Any] = json.loads(item["data"]["eagle3.json"])
    return board


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    """D20: every panel's metrics and labels exist, dead names are nowhere, and every expression can be narrowed."""
    expressions = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    for expression in expressions:
        assert not unknown(expression), expression
        assert all({"namespace", "job"} <= selector.labels for selector in selectors(expression))


def test_the_dashboard_shows_every_metric_of_cloudwatch() -> None:
    """What goes to CloudWatch is on the dashboard, rates and distributions by their counters and buckets."""
    asked = " ".join(target["expr"] for panel in dashboard()["panels"] for target in panel["targets"])
    missing = [entry.prometheus for entry in CATALOGUE if entry.cloudwatch and entry.prometheus not in asked]
    assert not missing


def test_the_dashboard_is_whole() -> None:
    """Panels have ids, places of their own and a source by variable; lines and links follow the alarms' values."""
    board = dashboard({"monitoring": {"prometheusRule": {"e2eP99Ms": 750, "queueDepth": 12}}})
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels)
    assert {variable["name"] for variable in board["templating"]["list"]} == {"datasource", "namespace", "job"}
    lines = {
        panel["title"]: steps[1]["value"]
        for panel in panels
        if (steps := panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps"))
    }
    assert lines == {"End-to-end latency": 750, "Queue depth per replica": 12}
    assert board["links"][0]["url"].startswith("https://")
    assert "@" not in json.dumps(board)


def test_dead_metric_names_are_nowhere_in_the_charts() -> None:
    """D20: no template, file or value has a name that vLLM dropped."""
    for path in CHARTS.rglob("*"):
        if path.is_file():
            assert not [name for name in DEAD if name in path.read_text(encoding="utf-8")], path


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_monitors_scrape_every_ten_seconds_what_serves(kind: str) -> None:
    """The port that the pods and Services call http is scraped at the metrics' own interval, both versions."""
    key = kind[0].lower() + kind[1:]
    values = {"monitoring": {key: {"enabled": True, "labels": {"release": "prometheus"}}}}
    rendered = render(values)
    monitor = rendered.only(kind)
    (scrape,) = monitor["spec"]["endpoints" if kind == "ServiceMonitor" else "podMetricsEndpoints"]
    assert (scrape["port"], scrape["path"], scrape["interval"]) == ("http", "/metrics", "10s")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    selected = rendered.only("Service" if kind == "ServiceMonitor" else "Deployment")
    labels = selected["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (rule,) = monitor["spec"]["selector"]["matchExpressions"]
    assert {labels[rule["key"]], "canary"} == set(rule["values"])


def test_notes_say_who_must_be_let_in() -> None:
    """With monitors and a policy that lets no namespace read /metrics the notes name the key; with it they do not."""
    values = {"monitoring": {"serviceMonitor": {"enabled": True}}}
    key = "networkPolicy.ingress.metricsNamespaces"
    assert key in render(values).texts["templates/NOTES.txt"]
    allowed = {"networkPolicy": {"ingress": {"metricsNamespaces": ["monitoring"]}}}
    assert key not in render(merged(values, allowed)).texts["templates/NOTES.txt"]


def test_two_scrapes_of_one_pod_are_refused() -> None:
    """Both monitors together would double every sum, the queue's among them."""
    both = {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}
    assert "scraped twice" in fails({"monitoring": both})


def test_nothing_of_the_operators_is_made_by_default() -> None:
    """The defaults need neither the Prometheus operator nor Grafana; scaling aims below the alarm's line."""
    assert not {item["kind"] for item in render().all()} & {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
    values = values_file("values.yaml")
    assert values["autoscaling"]["queueDepth"] < values["monitoring"]["prometheusRule"]["queueDepth"]

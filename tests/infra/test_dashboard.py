"""Dashboards: valid JSON of CloudWatch's grammar, every metric of the design, no dead one."""

from __future__ import annotations

import json
import re

import pytest

from eagle3.metrics.catalogue import CATALOGUE
from infra.observability.dashboard_body import GRAPHS, dashboard_body
from infra.observability.watched import AWS_METRICS, Watched
from infra.settings.alarms import AlarmSettings
from operations_doubles import CLUSTER, CLUSTER_SITE, ENDPOINT, ENDPOINT_SITE, operations

RUNTIME = {entry.cloudwatch for entry in CATALOGUE if entry.cloudwatch}
DESIGN = {
    "TokensPerSecond",
    "AcceptanceRate",
    "DraftLatencyMs",
    "VerifyLatencyMs",
    "E2ELatencyMs",
    "TimeToFirstTokenMs",
    "GPUMemoryUsedMB",
    "QueueDepth",
    "RejectedRequests",
}
CASES = {"endpoint": (ENDPOINT_SITE, ENDPOINT), "cluster": (CLUSTER_SITE, CLUSTER)}


def body(case):
    """The dashboard of a case, as CloudWatch would read it."""
    site, _ = CASES[case]
    [found] = [item for item in operations().all("aws_cloudwatch_dashboard") if item["dashboard_name"] == site.name]
    return json.loads(found["dashboard_body"])


def rows(document):
    """Rows of all graphs: lists that begin with a namespace, or with an expression."""
    return [
        row for widget in document["widgets"] if widget["type"] == "metric" for row in widget["properties"]["metrics"]
    ]


def metrics(document):
    """Namespace, name and names of dimensions of every row that is no expression."""
    return [(row[0], row[1], tuple(row[2:-1:2])) for row in rows(document) if isinstance(row[0], str)]


@pytest.mark.parametrize("case", CASES)
def test_widgets_keep_the_grammar(case):
    """Type, place and properties of every widget are those that CloudWatch knows; none overlaps another."""
    taken = set()
    needed = {
        "text": {"markdown"},
        "alarm": {"title", "alarms", "sortBy"},
        "metric": {"title", "region", "view", "stacked", "metrics", "yAxis"},
    }
    for widget in body(case)["widgets"]:
        assert set(widget) == {"type", "x", "y", "width", "height", "properties"}
        assert set(widget["properties"]) - {"annotations"} == needed[widget["type"]]
        assert 0 <= widget["x"] <= widget["x"] + widget["width"] <= 24
        assert 1 <= widget["height"] <= 1000
        area = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert not area & taken
        taken |= area


@pytest.mark.parametrize("case", CASES)
def test_rows_are_of_metrics_that_exist(case):
    """Every row names a metric of the runtime or of AWS, with its dimensions in pairs and its options last."""
    document = body(case)
    _, watched = CASES[case]
    own = tuple(watched.dimensions("serving"))
    for namespace, name, dimensions in metrics(document):
        if namespace == watched.runtime_namespace:
            assert name in RUNTIME or re.fullmatch(r"AcceptanceByDepth\d+", name)
            assert dimensions == own
        else:
            assert dimensions == AWS_METRICS[namespace, name]
    for row in rows(document):
        assert isinstance(row[-1], dict)
        assert set(row[-1]) <= {"stat", "period", "label", "expression", "id"}


@pytest.mark.parametrize("case", CASES)
def test_every_metric_of_the_design_is_shown(case):
    """The metrics that the product promises are on the dashboard of every stack that has them."""
    shown = {name for _, name, _ in metrics(body(case))}
    assert shown >= DESIGN | {f"AcceptanceByDepth{depth}" for depth in range(1, 6)}
    assert any("RejectedRequests" in row[0]["expression"] for row in rows(body(case)) if isinstance(row[0], dict))


@pytest.mark.parametrize("case", CASES)
def test_state_of_every_alarm_is_shown(case):
    """Dashboard → alarms: those of the stack, all of them."""
    site, _ = CASES[case]
    stack = operations()
    [widget] = [widget for widget in body(case)["widgets"] if widget["type"] == "alarm"]
    shown = {stack.follow(arn)["alarm_name"] for arn in widget["properties"]["alarms"]}
    made = {item["alarm_name"] for item in stack.all("aws_cloudwatch_metric_alarm")}
    assert shown == {name for name in made if name.startswith(site.name)}


@pytest.mark.parametrize("case", CASES)
def test_no_dead_metric_names(case):
    """D20: names that vLLM has dropped are on no dashboard."""
    text = json.dumps(body(case))
    for dead in ("gpu_cache_usage_perc", "num_requests_swapped", "time_in_queue_requests"):
        assert dead not in text


def test_costs_are_asked_for_where_aws_keeps_them():
    """Charges are a metric of us-east-1, wherever the stack is; the budget stands above the graphs."""
    document = dashboard_body(
        ENDPOINT, AlarmSettings(), title="t", region="eu-west-1", alarm_arns=(), monthly_usd=1234.5
    )
    [charges] = [widget for widget in document["widgets"] if "AWS/Billing" in json.dumps(widget)]
    assert charges["properties"]["region"] == "us-east-1"
    [text] = [widget for widget in document["widgets"] if widget["type"] == "text"]
    assert "1,234.50 USD" in text["properties"]["markdown"]
    others = [widget for widget in document["widgets"] if widget["type"] == "metric" and widget is not charges]
    assert {widget["properties"]["region"] for widget in others} == {"eu-west-1"}


def test_a_foreign_container_has_no_graphs_of_the_runtime():
    """Graphs that would stay empty are not drawn."""
    watched = Watched(endpoint_name="e", runtime_metrics=False)
    document = dashboard_body(watched, AlarmSettings(), title="t", region="us-east-1", alarm_arns=(), monthly_usd=1.0)
    assert {namespace for namespace, _, _ in metrics(document)} == {"AWS/SageMaker", "AWS/Billing"}


def test_lines_are_settings():
    """A line on a graph is a field of the alarm settings, so both move together."""
    assert {graph.line for graph in GRAPHS if graph.line} <= set(AlarmSettings.model_fields)

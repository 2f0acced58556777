"""Scaling that cannot work is refused at render, with one message that says what to change."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaling_doubles import BALANCER, CLOUDWATCH, GATEWAY, PODS, PROMETHEUS, REPORTED, scaled
from chart_doubles import fails, merged, render

ZERO = {"minReplicas": 0}


@pytest.mark.parametrize("trigger", [PROMETHEUS, PODS, CLOUDWATCH])
def test_zero_replicas_need_something_outside_the_pods(trigger: dict[str, Any]) -> None:
    """minReplicas 0 with the engines' own metric is refused whatever the trigger; with a wake trigger it renders."""
    values = {"config": REPORTED}
    message = fails({"autoscaling": merged(trigger, ZERO), **values})
    assert "autoscaling.minReplicas is 0" in message
    assert "comes from the pods themselves" in message
    assert message.count("allowed:") == 1
    for wake in (GATEWAY, BALANCER):
        more = {"prometheus": PROMETHEUS["prometheus"], "cloudwatch": CLOUDWATCH["cloudwatch"]}
        spec = scaled(merged(trigger, more, ZERO, {"wake": wake}), **values)
        assert spec["minReplicaCount"] == 0
        assert spec["triggers"][-1]["name"] == "wake"
        assert spec["cooldownPeriod"] >= 300


@pytest.mark.parametrize(
    "query",
    [
        'sum(eagle3_queue_depth{job="eagle3"})',
        'max(vllm:num_requests_waiting{job="eagle3"})',
        'sum(DCGM_FI_DEV_GPU_UTIL{exported_namespace="eagle3"})',
        'sum(rate(envoy_requests_total[1m])) + sum(eagle3_running{job="eagle3"})',
    ],
)
def test_a_wake_trigger_on_the_pods_is_refused(query: str) -> None:
    """A query of the pods' own metrics does not survive zero; nor does the namespace that the runtime reports to."""
    wake = {"type": "prometheus", "prometheus": {"query": query}}
    assert "gone at zero replicas" in fails({"autoscaling": merged(PROMETHEUS, ZERO, {"wake": wake})})
    own = merged(BALANCER, {"cloudwatch": {"namespace": "Eagle3"}})
    message = fails({"autoscaling": merged(CLOUDWATCH, ZERO, {"wake": own}), "config": REPORTED})
    assert "config.metrics.namespace" in message
    assert "gone at zero replicas" in message


@pytest.mark.parametrize(
    ("autoscaling", "said"),
    [
        (merged(PROMETHEUS, {"minReplicas": 5}), "autoscaling.minReplicas is 5 and autoscaling.maxReplicas 4"),
        ({"kind": "hpa", "minReplicas": 5}, "autoscaling.minReplicas is 5 and autoscaling.maxReplicas 4"),
        (merged({"kind": "hpa", "wake": GATEWAY}, ZERO), "never starts the first replica"),
        (merged(PROMETHEUS, {"queueDepth": 300}), "config.limits.queue"),
        ({"kind": "keda"}, "autoscaling.prometheus.serverAddress is empty"),
        (merged(PODS, {"gpuUtilization": {"enabled": True}}), "autoscaling.prometheus.serverAddress is empty"),
        (merged(PODS, ZERO, {"wake": GATEWAY}), "autoscaling.prometheus.serverAddress is empty"),
        (merged(PODS, ZERO, {"wake": BALANCER}), "autoscaling.cloudwatch.region is empty"),
        (merged(PROMETHEUS, ZERO, {"wake": {"type": "prometheus"}}), "wake.prometheus.query is empty"),
        (merged(CLOUDWATCH, ZERO, {"wake": {"type": "aws-cloudwatch"}}), "dimensions are missing"),
        (merged(PROMETHEUS, ZERO, {"wake": GATEWAY, "cooldownSeconds": 60}), "a cold start takes 300 s"),
        (merged(PROMETHEUS, {"scaleDown": {"stabilizationSeconds": 60}}), "a cold start takes 300 s"),
        (merged(PROMETHEUS, {"fallback": {"replicas": 9}}), "allowed: 1 to 4"),
        (merged(CLOUDWATCH, {"cloudwatch": {"periodSeconds": 45}}), "allowed: 10, 30, 60 or a multiple of 60"),
        (merged(CLOUDWATCH, {"cloudwatch": {"collectionSeconds": 60}}), "more than a period"),
        (merged(CLOUDWATCH, {"cloudwatch": {"collectionSeconds": 90}}), "a whole number of them"),
    ],
)
def test_what_cannot_work_is_refused(autoscaling: dict[str, Any], said: str) -> None:
    """Each refusal names the key, what was got and what is allowed."""
    message = fails({"autoscaling": autoscaling, "config": REPORTED})
    assert said in message
    assert "autoscaling." in message


def test_cloudwatch_needs_metrics_that_are_sent() -> None:
    """Without records, or without a dimension to ask by, there is nothing to scale on; with both it renders."""
    dimensions = {"dimensions": {"ClusterName": "c"}}
    assert "config.metrics.emf is off" in fails({"autoscaling": CLOUDWATCH, "config": {"metrics": dimensions}})
    assert "dimensions is empty" in fails({"autoscaling": CLOUDWATCH, "config": {"metrics": {"emf": "stdout"}}})
    assert render({"autoscaling": CLOUDWATCH, "config": REPORTED}).only("ScaledObject")


@pytest.mark.parametrize(
    "autoscaling",
    [
        {"kind": "vpa"},
        {"kind": "keda", "tigger": "prometheus"},
        {"maxReplicas": 0},
        {"coldStartSeconds": 1801},
        {"busyShare": 1.5},
        {"wake": {"prometheus": {"query": "rate(x[1m])"}}},
        {"prometheus": {"serverAddress": "prometheus:9090"}},
        {"prometheus": {"authentication": {"modes": ["oauth"]}}},
    ],
)
def test_the_schema_refuses_typos_and_impossible_values(autoscaling: dict[str, Any]) -> None:
    """Unknown keys and values out of range never reach the templates; a query of many values is one of them (D19)."""
    assert "at '/autoscaling" in fails({"autoscaling": autoscaling})

"""Values of the chart that scale: each trigger, and what may wake it from zero; and short ways to what they render.

Knows no templates. Invariant: each of them alone renders.
"""

from __future__ import annotations

from typing import Any

from chart_doubles import render

PROMETHEUS = {"kind": "keda", "prometheus": {"serverAddress": "http://prometheus.monitoring:9090"}}
PODS = {"kind": "keda", "trigger": "metrics-api"}
CLOUDWATCH = {"kind": "keda", "trigger": "aws-cloudwatch", "cloudwatch": {"region": "us-east-1"}}
REPORTED = {"metrics": {"emf": "stdout", "dimensions": {"ClusterName": "prod", "Stage": "blue"}}}
GATEWAY = {"type": "prometheus", "prometheus": {"query": 'sum(rate(envoy_requests_total{route="eagle3"}[1m]))'}}
BALANCER = {
    "type": "aws-cloudwatch",
    "cloudwatch": {
        "namespace": "AWS/ApplicationELB",
        "metricName": "RequestCount",
        "dimensions": {"LoadBalancer": "app/a/1"},
    },
}


def scaled(autoscaling: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Spec of the ScaledObject."""
    return render({"autoscaling": autoscaling, **values}).only("ScaledObject")["spec"]


def triggers(autoscaling: dict[str, Any], **values: Any) -> dict[str, dict[str, Any]]:
    """Triggers of the ScaledObject, by name."""
    return {trigger["name"]: trigger for trigger in scaled(autoscaling, **values)["triggers"]}

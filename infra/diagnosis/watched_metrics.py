"""Which metrics each alarm's page compares, beside the alarm's own. Pure data.

Invariant: a metric is read under exactly the dimensions under which it is published (infra/observability/watched.py).
"""

from __future__ import annotations

from infra.observability.alarm_catalogue import ALARMS
from infra.observability.watched import Metric, Watched

_SAGEMAKER = "AWS/SageMaker"
_SQS = "AWS/SQS"


def _runtime(name: str, statistic: str = "Average") -> Metric:
    return Metric(id="m", name=name, statistic=statistic)


def _variant(name: str, statistic: str) -> Metric:
    return Metric(id="m", namespace=_SAGEMAKER, name=name, statistic=statistic, of="variant")


_BESIDES: dict[str, tuple[Metric, ...]] = {
    "e2e-latency-p99": (
        _runtime("E2ELatencyMs", "p50"), _runtime("QueueDepth"), _runtime("AcceptanceRate"),
        _runtime("VerifyLatencyMs"), _runtime("TimeToFirstTokenMs", "p99"), _runtime("TokensPerSecond"),
    ),
    "model-latency-p99": (_variant("ModelLatency", "p50"), _variant("Invocations", "Sum")),
    "acceptance-rate-low": tuple(_runtime(f"AcceptanceByDepth{depth}") for depth in range(1, 6)),
    "queue-growing": (_runtime("TokensPerSecond"), _runtime("RejectedRequests", "Sum")),
    "endpoint-5xx": (_variant("Invocations", "Sum"), _variant("ModelLatency", "Maximum")),
    "async-backlog": (
        Metric(id="m", namespace=_SAGEMAKER, name="ApproximateBacklogSize", statistic="Maximum", of="endpoint"),
    ),
    "interruption-queue-stuck": tuple(
        Metric(id="m", namespace=_SQS, name=name, statistic="Sum", of="interruption_queue")
        for name in ("NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted",
                     "NumberOfEmptyReceives")
    ),
    "pods-unschedulable": (
        Metric(id="m", namespace="AWS/EKS", name="scheduler_pending_pods", statistic="Maximum", of="cluster"),
    ),
    "no-data": (_variant("Invocations", "Sum"),),
}  # fmt: skip


def metrics_of(alarm: str, watched: Watched) -> tuple[Metric, ...]:
    """The alarm's own metrics and those that its page compares, of what the stack has."""
    own = next((one.metrics for one in ALARMS if one.name == alarm), ())
    present = {"serving", *(fact for fact in watched.facts)}
    if watched.endpoint_name is not None:
        present.add("variant")
    # The load balancer's name has to be looked up first: its collector reads its metrics.
    return tuple(metric for metric in (*own, *_BESIDES.get(alarm, ())) if metric.of in present)


def watched_of(site: str, stack: str, namespace: str = "Eagle3") -> Watched:
    """What a stack has under the names that its resources carry."""
    if stack != "large":
        return Watched(runtime_namespace=namespace, endpoint_name=f"{site}-endpoint", asynchronous=True)
    return Watched(
        runtime_namespace=namespace,
        cluster_name=f"{site}-cluster",
        spot_rule_name=f"{site}-spot-interruption",
        interruption_queue_name=f"{site}-interruption",
        bootstrap_project_name=f"{site}-bootstrap",
    )

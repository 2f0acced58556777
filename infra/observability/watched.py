"""What a stack has that can be watched, and the metrics that CloudWatch has of it.

Knows no alarms and no framework. Invariant: a metric's dimensions are exactly those under which it is published; a
metric of AWS that is not in `AWS_METRICS` does not exist here. Metrics of the runtime are those of
eagle3/metrics/catalogue.py; tests hold both together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Subject = Literal[
    "serving", "endpoint", "variant", "cluster", "spot_rule", "interruption_queue", "bootstrap", "load_balancer"
]
"""Whose metric it is; "serving" is the endpoint or the cluster, under whose name the runtime reports."""

Fact = Literal[
    "runtime_metrics",
    "no_runtime_metrics",
    "always_on",
    "gpu",
    "endpoint",
    "asynchronous",
    "cluster",
    "spot_rule",
    "interruption_queue",
    "bootstrap",
    "load_balancer",
]

AWS_METRICS: dict[tuple[str, str], tuple[str, ...]] = {
    ("AWS/SageMaker", "Invocations"): ("EndpointName", "VariantName"),
    ("AWS/SageMaker", "Invocation4XXErrors"): ("EndpointName", "VariantName"),
    ("AWS/SageMaker", "Invocation5XXErrors"): ("EndpointName", "VariantName"),
    ("AWS/SageMaker", "ModelLatency"): ("EndpointName", "VariantName"),
    ("AWS/SageMaker", "ApproximateBacklogSize"): ("EndpointName",),
    ("AWS/SageMaker", "ApproximateAgeOfOldestRequest"): ("EndpointName",),
    ("AWS/EKS", "scheduler_pending_pods"): ("ClusterName",),
    ("AWS/EKS", "scheduler_pending_pods_UNSCHEDULABLE"): ("ClusterName",),
    ("AWS/Events", "TriggeredRules"): ("RuleName",),
    ("AWS/SQS", "ApproximateAgeOfOldestMessage"): ("QueueName",),
    ("AWS/CodeBuild", "FailedBuilds"): ("ProjectName",),
    ("AWS/ApplicationELB", "RequestCount"): ("LoadBalancer",),
    ("AWS/ApplicationELB", "HTTPCode_Target_5XX_Count"): ("LoadBalancer",),
    ("AWS/ApplicationELB", "HTTPCode_ELB_5XX_Count"): ("LoadBalancer",),
    ("AWS/ApplicationELB", "TargetResponseTime"): ("LoadBalancer",),
    ("AWS/Billing", "EstimatedCharges"): ("Currency",),
}
"""Namespace and name to dimensions; one-minute metrics all of them (AWS/Billing: every few hours, us-east-1 only)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric as an alarm or a graph reads it."""

    id: str
    """Name in expressions; begins with a small letter."""
    name: str
    """CloudWatch name."""
    statistic: str
    """Such as "Average" or "p99"."""
    period_s: int = 60
    """10, 20, 30 or a multiple of 60; below 60 only for metrics of the runtime, which are stored by the second."""
    of: Subject = "serving"
    namespace: str | None = None
    """None: the namespace of the runtime's metrics."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """What one stack has. Names that the watched resource itself refers to must be text, no reference: a cycle."""

    runtime_namespace: str = "Eagle3"
    """`metrics.namespace` of the deployment config."""
    runtime_metrics: bool = True
    """Whether what serves is this project's image, so that its metrics reach CloudWatch."""
    always_on: bool = True
    """False where the number of replicas may be 0, so that silence means nothing."""
    depth: int = 5
    """`speculation.depth` of the deployment config."""
    gpu_memory_mib: int | None = None
    """Of all GPUs of one replica together; None without a GPU."""
    endpoint_name: str | None = None
    """SageMaker endpoint, as text."""
    variant_name: str = "AllTraffic"
    """Production variant of the endpoint."""
    asynchronous: bool = False
    """Whether the endpoint takes its requests from S3."""
    cluster_name: str | None = None
    """EKS cluster."""
    spot_rule_name: str | None = None
    """EventBridge rule that matches spot interruption warnings."""
    interruption_queue_name: str | None = None
    """Queue that Karpenter reads."""
    bootstrap_project_name: str | None = None
    """CodeBuild project that installs what runs in the cluster."""
    load_balancer_suffix: str | None = None
    """Last part of the load balancer's ARN ("app/name/id")."""

    def __post_init__(self) -> None:
        assert (self.endpoint_name is None) != (self.cluster_name is None), "an endpoint or a cluster serves"

    @property
    def facts(self) -> frozenset[Fact]:
        """What there is."""
        present: dict[Fact, bool] = {
            "runtime_metrics": self.runtime_metrics,
            "no_runtime_metrics": not self.runtime_metrics,
            "always_on": self.always_on,
            "gpu": self.gpu_memory_mib is not None,
            "endpoint": self.endpoint_name is not None,
            "asynchronous": self.asynchronous,
            "cluster": self.cluster_name is not None,
            "spot_rule": self.spot_rule_name is not None,
            "interruption_queue": self.interruption_queue_name is not None,
            "bootstrap": self.bootstrap_project_name is not None,
            "load_balancer": self.load_balancer_suffix is not None,
        }
        return frozenset(fact for fact, holds in present.items() if holds)

    def dimensions(self, subject: Subject) -> dict[str, str]:
        """Dimensions of a subject that this stack has."""
        serving: Subject = "endpoint" if self.endpoint_name is not None else "cluster"
        values: dict[Subject, dict[str, str | None]] = {
            "endpoint": {"EndpointName": self.endpoint_name},
            "variant": {"EndpointName": self.endpoint_name, "VariantName": self.variant_name},
            "cluster": {"ClusterName": self.cluster_name},
            "spot_rule": {"RuleName": self.spot_rule_name},
            "interruption_queue": {"QueueName": self.interruption_queue_name},
            "bootstrap": {"ProjectName": self.bootstrap_project_name},
            "load_balancer": {"LoadBalancer": self.load_balancer_suffix},
        }
        found = {key: value for key, value in values[serving if subject == "serving" else subject].items() if value}
        assert len(found) == (2 if subject == "variant" else 1), f"this stack has no {subject}"
        return found

    def namespace(self, metric: Metric) -> str:
        """Namespace of a metric."""
        return self.runtime_namespace if metric.namespace is None else metric.namespace

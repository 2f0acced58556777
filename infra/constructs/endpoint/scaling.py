"""How many instances an endpoint has: by requests at once, by the queue, and for asynchronous ones by the backlog.

Knows the endpoint by a reference to its name, so that scaling comes after it and goes before it. Invariant: cooldowns
cover the cold start, so that nothing is asked for twice while an instance starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.settings.endpoint import EndpointSettings
from infra.settings.endpoint_facts import queue_target
from infra.site import Site

CONCURRENCY_METRIC = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
QUEUE_METRIC = "QueueDepth"
_SAGEMAKER = "AWS/SageMaker"
_TRACKING = "AppautoscalingPolicyTargetTrackingScalingPolicyConfiguration"
_STEPS = "AppautoscalingPolicyStepScalingPolicyConfiguration"


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointScalingProps:
    """What is scaled, and by what."""

    site: Site
    """Names."""
    settings: EndpointSettings
    """The endpoint's section; autoscaling must be on, and the mode realtime or async."""
    endpoint_name: str
    """A reference to the endpoint's name."""
    variant: str
    """Its variant."""
    target_concurrency: float
    """Requests at once per instance that are aimed at."""
    metrics_namespace: str
    """Namespace of the container's own metrics."""
    metrics_endpoint: str
    """Dimension EndpointName of these metrics, as plain text."""


class EndpointScaling(Construct):
    """Scaling target and policies of one endpoint."""

    def __init__(self, scope: Any, id: str, props: EndpointScalingProps) -> None:
        super().__init__(scope, id)
        settings = props.settings
        assert settings.autoscaling.enabled, "autoscaling is off"
        assert settings.mode != "serverless", "serverless endpoints scale themselves"
        self._props = props
        self._target = aws.AppautoscalingTarget(
            self,
            "Target",
            service_namespace="sagemaker",
            scalable_dimension="sagemaker:variant:DesiredInstanceCount",
            resource_id=f"endpoint/{props.endpoint_name}/variant/{props.variant}",
            min_capacity=settings.fewest_instances,
            max_capacity=settings.most_instances,
        )
        if settings.mode == "async":
            self._follow_backlog()
            if settings.fewest_instances == 0:
                self._wake()
        else:
            self._follow_concurrency()
            queue = queue_target(settings)
            if queue is not None:
                self._follow_metric("Queue", props.metrics_namespace, QUEUE_METRIC, queue)

    def _follow_concurrency(self) -> None:
        self._track(
            "Concurrency",
            self._props.target_concurrency,
            predefined_metric_specification=getattr(aws, f"{_TRACKING}PredefinedMetricSpecification")(
                predefined_metric_type=CONCURRENCY_METRIC
            ),
        )

    def _follow_backlog(self) -> None:
        backlog = self._props.settings.asynchronous.backlog_per_instance
        self._follow_metric("Backlog", _SAGEMAKER, "ApproximateBacklogSizePerInstance", backlog)

    def _follow_metric(self, id: str, namespace: str, metric: str, value: float) -> None:
        """Each instance reports for itself under the endpoint's name, so that the average is that of one instance."""
        dimension = getattr(aws, f"{_TRACKING}CustomizedMetricSpecificationDimensions")
        specification = getattr(aws, f"{_TRACKING}CustomizedMetricSpecification")(
            namespace=namespace,
            metric_name=metric,
            statistic="Average",
            dimensions=[dimension(name="EndpointName", value=self._props.metrics_endpoint)],
        )
        self._track(id, value, customized_metric_specification=specification)

    def _track(self, id: str, value: float, **metric: Any) -> None:
        cold_start_s = self._props.settings.autoscaling.cold_start_s
        tracking = getattr(aws, _TRACKING)(
            target_value=value, scale_out_cooldown=cold_start_s, scale_in_cooldown=2 * cold_start_s, **metric
        )
        self._policy(id, "TargetTrackingScaling", target_tracking_scaling_policy_configuration=tracking)

    def _wake(self) -> None:
        """The first instance: per-instance metrics do not exist without one, so this one counts requests alone."""
        step = getattr(aws, f"{_STEPS}StepAdjustment")(metric_interval_lower_bound="0", scaling_adjustment=1)
        steps = getattr(aws, _STEPS)(
            adjustment_type="ChangeInCapacity",
            metric_aggregation_type="Average",
            cooldown=self._props.settings.autoscaling.cold_start_s,
            step_adjustment=[step],
        )
        policy = self._policy("Wake", "StepScaling", step_scaling_policy_configuration=steps)
        aws.CloudwatchMetricAlarm(
            self,
            "Waiting",
            alarm_name=self._props.site.named("wake"),
            alarm_description="Requests wait and no instance runs: starts one. Acts on autoscaling only",
            namespace=_SAGEMAKER,
            metric_name="HasBacklogWithoutCapacity",
            dimensions={"EndpointName": self._props.metrics_endpoint},
            statistic="Average",
            period=60,
            evaluation_periods=2,
            datapoints_to_alarm=2,
            threshold=1,
            comparison_operator="GreaterThanOrEqualToThreshold",
            treat_missing_data="missing",
            actions_enabled=True,
            alarm_actions=[policy.arn],
        )

    def _policy(self, id: str, kind: str, **configuration: Any) -> Any:
        target = self._target
        return aws.AppautoscalingPolicy(
            self,
            id,
            name=self._props.site.named(id.lower()),
            policy_type=kind,
            service_namespace=target.service_namespace,
            scalable_dimension=target.scalable_dimension,
            resource_id=target.resource_id,
            **configuration,
        )

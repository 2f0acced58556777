"""A SageMaker endpoint: the fixed name that callers know, and how a new configuration takes over.

Knows no models. Invariant: rollback alarms are names, not references, so that alarms about the endpoint and the
endpoint itself make no cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.settings.endpoint import EndpointSettings
from infra.settings.endpoint_facts import rollout_timeout_s
from infra.site import Site

_MOST_ALARMS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointProps:
    """What the endpoint runs and when a change of it is taken back."""

    site: Site
    """Names."""
    settings: EndpointSettings
    """The endpoint's section."""
    config_name: str
    """The configuration."""
    rollback_alarm_names: tuple[str, ...] = ()
    """Plain names of 1 to 10 alarms that end a rollout and bring the old instances back; none: nothing does."""


class Endpoint(Construct):
    """One endpoint."""

    def __init__(self, scope: Any, id: str, props: EndpointProps) -> None:
        super().__init__(scope, id)
        assert len(props.rollback_alarm_names) <= _MOST_ALARMS, f"{_MOST_ALARMS} rollback alarms at most"
        endpoint = aws.SagemakerEndpoint(
            self,
            "Endpoint",
            name=endpoint_name(props.site),
            endpoint_config_name=props.config_name,
            deployment_config=None if props.settings.mode == "serverless" else _deployment(props),
            tags={"Name": endpoint_name(props.site)},
        )
        self.name: str = endpoint.name
        """A reference, for what must come after the endpoint."""
        self.arn: str = endpoint.arn
        """For policies of callers."""


def endpoint_name(site: Site) -> str:
    """Name of a stack's endpoint, as plain text: dimensions, log group and alarms are called after it."""
    return site.named("endpoint")


def _deployment(props: EndpointProps) -> Any:
    alarm = aws.SagemakerEndpointDeploymentConfigAutoRollbackConfigurationAlarms
    rollback = None
    if props.rollback_alarm_names:
        rollback = aws.SagemakerEndpointDeploymentConfigAutoRollbackConfiguration(
            alarms=[alarm(alarm_name=name) for name in props.rollback_alarm_names]
        )
    return aws.SagemakerEndpointDeploymentConfig(
        auto_rollback_configuration=rollback,
        blue_green_update_policy=aws.SagemakerEndpointDeploymentConfigBlueGreenUpdatePolicy(
            traffic_routing_configuration=_routing(props.settings),
            termination_wait_in_seconds=props.settings.rollout.bake_s,
            maximum_execution_timeout_in_seconds=rollout_timeout_s(props.settings),
        ),
    )


def _routing(settings: EndpointSettings) -> Any:
    rollout = settings.rollout
    prefix = "SagemakerEndpointDeploymentConfigBlueGreenUpdatePolicyTrafficRoutingConfiguration"
    routing = getattr(aws, prefix)
    # Counts, not percentages: 10 % of two instances would be none.
    size = {"type": "INSTANCE_COUNT", "value": rollout.step_instances}
    if rollout.strategy == "CANARY":
        canary = getattr(aws, f"{prefix}CanarySize")(**size)
        return routing(type="CANARY", wait_interval_in_seconds=rollout.wait_s, canary_size=canary)
    if rollout.strategy == "LINEAR":
        step = getattr(aws, f"{prefix}LinearStepSize")(**size)
        return routing(type="LINEAR", wait_interval_in_seconds=rollout.wait_s, linear_step_size=step)
    return routing(type="ALL_AT_ONCE", wait_interval_in_seconds=rollout.bake_s)

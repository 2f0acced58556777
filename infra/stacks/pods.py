"""Rights of the pods of the large stack, each by Pod Identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.constructs.cluster import karpenter_access
from infra.constructs.cluster.addons import (
    CLOUDWATCH_NAMESPACE,
    CLOUDWATCH_SERVICE_ACCOUNT,
    EBS_CSI_NAMESPACE,
    EBS_CSI_SERVICE_ACCOUNT,
)
from infra.constructs.cluster.karpenter_access import KarpenterAccess, karpenter_policies
from infra.constructs.cluster.pod_identity import PodIdentity, PodIdentityProps
from infra.constructs.cluster.pod_rights import (
    ebs_csi_policy_arn,
    read_metrics,
    read_models,
    register_targets,
    write_telemetry,
)
from infra.policy import Statement
from infra.settings.root import ClusterStackSettings
from infra.stacks.base import KitStack

KARPENTER_SERVICE_ACCOUNT = karpenter_access.SERVICE_ACCOUNT
LOAD_BALANCER_SERVICE_ACCOUNT = "aws-load-balancer-controller"
RUNTIME_NAMESPACE = RUNTIME_SERVICE_ACCOUNT = "eagle3"


@dataclass(frozen=True, kw_only=True, slots=True)
class PodsProps:
    """What the pods work with."""

    own: ClusterStackSettings
    cluster: Any
    """Name of the cluster, a token that waits for it."""
    cluster_name: str
    """The same name as plain text."""
    node_role_arn: str
    """Role that Karpenter passes to nodes."""
    queue_arn: str
    """Interruption queue."""
    models_arn: str
    """Bucket of models."""
    data_key_arn: str
    """Its key."""
    telemetry_group_arns: tuple[str, ...]
    """Log groups that the CloudWatch agent writes to."""
    target_group_arn: str | None
    """Target group that pods are registered in; null without an edge."""


class Pods:
    """Every association of the cluster."""

    def __init__(self, stack: KitStack, props: PodsProps) -> None:
        self._stack, self._props = stack, props
        own, site = props.own, stack.site
        karpenter = KarpenterAccess(
            site=site,
            cluster_name=props.cluster_name,
            node_role_arn=props.node_role_arn,
            queue_arn=props.queue_arn,
            zonal_shift=own.cluster.zonal_shift,
        )
        made = [
            self._pod(
                "Karpenter", karpenter_access.NAMESPACE, KARPENTER_SERVICE_ACCOUNT, karpenter_policies(karpenter)
            ),
            self._pod("EbsCsi", EBS_CSI_NAMESPACE, EBS_CSI_SERVICE_ACCOUNT, {}, managed=(ebs_csi_policy_arn(site),)),
            self._pod("Keda", "keda", "keda-operator", {"metrics": read_metrics()}),
            self._pod(
                "Runtime",
                RUNTIME_NAMESPACE,
                RUNTIME_SERVICE_ACCOUNT,
                {"models": read_models(site, bucket_arn=props.models_arn, key_arn=props.data_key_arn)},
            ),
        ]
        if own.cluster.cloudwatch_agent.enabled:
            namespaces = [own.deployment.metrics.namespace]
            if own.cluster.cloudwatch_agent.container_insights:
                namespaces.append("ContainerInsights")
            telemetry = write_telemetry(log_group_arns=props.telemetry_group_arns, namespaces=namespaces)
            made.append(
                self._pod("CloudWatch", CLOUDWATCH_NAMESPACE, CLOUDWATCH_SERVICE_ACCOUNT, {"telemetry": telemetry})
            )
        if props.target_group_arn is not None:
            targets = register_targets(target_group_arns=[props.target_group_arn])
            made.append(self._pod("LoadBalancer", "kube-system", LOAD_BALANCER_SERVICE_ACCOUNT, {"targets": targets}))
        self.ready: tuple[Any, ...] = tuple(item for pod in made for item in pod.ready)
        """What pods wait for."""

    def _pod(
        self,
        id: str,
        namespace: str,
        service_account: str,
        policies: Mapping[str, Sequence[Statement]],
        *,
        managed: tuple[str, ...] = (),
    ) -> PodIdentity:
        return PodIdentity(
            self._stack,
            f"{id}Identity",
            PodIdentityProps(
                site=self._stack.site,
                cluster=self._props.cluster,
                cluster_name=self._props.cluster_name,
                suffix=id.lower(),
                namespace=namespace,
                service_account=service_account,
                policies=policies,
                managed_policy_arns=managed,
            ),
        )

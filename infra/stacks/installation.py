"""What the bootstrap of the large stack installs: values, manifests, and the plan that starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.constructs.cluster.addons import EMF_ENDPOINT
from infra.constructs.cluster.artifact_mirror import ArtifactStore
from infra.constructs.cluster.bootstrap_plan import BootstrapPlan, BootstrapPlanProps, Project
from infra.kubernetes.helm_values import ClusterFacts, RuntimeImage, RuntimeRelease, helm_values
from infra.kubernetes.karpenter import NodeIdentity, node_class, node_pool
from infra.kubernetes.pool_limits import PoolLimits
from infra.kubernetes.workload import mounted_deployment, workload_values
from infra.settings.pools import PoolSettings, pool_zones
from infra.settings.root import ClusterStackSettings, Settings
from infra.stacks.base import KitStack
from infra.stacks.edge import Edge
from infra.stacks.foundation import Foundation
from infra.stacks.pods import KARPENTER_SERVICE_ACCOUNT
from infra.stacks.releases import RUNTIME, release_repository


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallationProps:
    """What is installed, and what it must be told."""

    settings: Settings
    own: ClusterStackSettings
    """The stack's section of them."""
    limits: Sequence[PoolLimits]
    """Of the pools, in their order."""
    base: Foundation
    cluster_name: str
    """Plain text."""
    node_group_id: str
    """Security group of the nodes."""
    instance_profile: str
    """Name of the profile that Karpenter's nodes run with."""
    queue_name: str
    """Interruption queue, by its name."""
    repositories: Mapping[str, str]
    """Name of a mirrored repository to its address."""
    store: ArtifactStore
    """Where the objects go."""
    mirror: Project
    bootstrap: Project
    metrics_log_group: str
    """Where the agent keeps the runtime's metrics."""
    edge: Edge | None
    after: tuple[Any, ...]
    """What must be there first."""


def install(stack: KitStack, props: InstallationProps) -> None:
    """Write values, manifests and plan, which start the bootstrap once everything before them is there."""
    own, site = props.own, stack.site
    plan = BootstrapPlan(
        stack,
        "BootstrapPlan",
        BootstrapPlanProps(
            site=site,
            components=own.components,
            values=helm_values(
                own.components,
                facts=_facts(stack, props),
                pools=own.pools,
                repositories=props.repositories,
                runtime=_runtime(stack, props),
            ),
            node_classes=[_node_class(stack, props, pool) for pool in own.pools],
            node_pools=[
                node_pool(
                    pool,
                    limits=limits,
                    zones=pool_zones(pool, region=site.region, zones=site.zones),
                )
                for pool, limits in zip(own.pools, props.limits, strict=True)
            ],
            own_chart=None if own.workload.chart_archive is None else str(own.workload.chart_archive),
            store=props.store,
            mirror=props.mirror,
            bootstrap=props.bootstrap,
            topic_arn=props.base.notifications.topic_arn,
            after=props.after,
        ),
    )
    stack.output("InstallAgain", plan.start_command, "Installs everything in the cluster again")


def _facts(stack: KitStack, props: InstallationProps) -> ClusterFacts:
    return ClusterFacts(
        cluster_name=props.cluster_name,
        region=stack.site.region,
        vpc_id=props.base.network.vpc_id,
        isolated=props.own.network.nat == "none",
        interruption_queue=props.queue_name,
        karpenter_service_account=KARPENTER_SERVICE_ACCOUNT,
        zonal_shift=props.own.cluster.zonal_shift,
        emf_endpoint=EMF_ENDPOINT if props.own.cluster.cloudwatch_agent.enabled else None,
        emf_log_group=props.metrics_log_group,
    )


def _runtime(stack: KitStack, props: InstallationProps) -> RuntimeRelease | None:
    own, workload = props.own, props.own.workload
    if workload.chart_archive is None:
        return None
    repository = release_repository(props.settings, stack.site, RUNTIME)
    image = RuntimeImage(repository=repository.url, tag=workload.image_tag, digest=workload.image_digest)
    more = workload_values(
        workload,
        own.deployment,
        pools=own.pools,
        limits=props.limits,
        region=stack.site.region,
        model_bucket=props.base.models.name,
        has_keda=own.components.keda.enabled,
    )
    if props.edge is not None:
        more["targetGroupBinding"] = {
            "targetGroupARN": props.edge.target_group_arn,
            "sourceCidrs": [props.base.network.cidr],
        }
    return RuntimeRelease(deployment=mounted_deployment(own.deployment, workload), image=image, more=more)


def _node_class(stack: KitStack, props: InstallationProps, pool: PoolSettings) -> dict[str, Any]:
    subnets = pool_zones(pool, region=stack.site.region, zones=stack.site.zones)
    return node_class(
        pool,
        identity=NodeIdentity(instance_profile=props.instance_profile),
        subnet_ids=[subnet.id for subnet in props.base.network.private_subnets if subnet.zone in subnets],
        security_group_ids=[props.node_group_id],
        kms_key_arn=props.base.keys["volumes"].arn,
        tags=stack.tags,
    )

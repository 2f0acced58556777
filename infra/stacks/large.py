"""The stack large: a private EKS cluster, its GPU pools, and what installs itself into it.

Order matters: roles and the bootstrap's project first, then the cluster that lets them in, network add-ons, nodes,
rights of pods, workload add-ons, and at last the plan that starts the bootstrap.
"""

from __future__ import annotations

import sys
from datetime import date
from typing import Any

from infra.catalogue.gpu_instances import gpu_instance
from infra.catalogue.interface_services import cluster_services
from infra.constructs.cluster.access import ClusterAccess, ClusterAccessProps
from infra.constructs.cluster.addons import (
    NetworkAddons,
    NetworkAddonsProps,
    WorkloadAddons,
    WorkloadAddonsProps,
    container_log_groups,
    insights_log_group,
)
from infra.constructs.cluster.artifact_mirror import ArtifactMirror, ArtifactMirrorProps, ArtifactStore, MirrorTarget
from infra.constructs.cluster.bootstrap import ClusterBootstrap, ClusterBootstrapProps
from infra.constructs.cluster.bootstrap_plan import Project
from infra.constructs.cluster.build_project import BuildLog
from infra.constructs.cluster.cluster import Cluster, ClusterProps
from infra.constructs.cluster.interruption import EVENTS, Interruption, InterruptionProps
from infra.constructs.cluster.roles import ClusterRoles, ClusterRolesProps
from infra.constructs.cluster.system_nodes import SystemNodes, SystemNodesProps
from infra.constructs.foundation.registry import Registry, RegistryProps
from infra.constructs.operations.log_groups import (
    LogGroups,
    LogGroupSpec,
    LogGroupsProps,
    build_log_group,
    cluster_log_group,
)
from infra.kubernetes.components import mirrored_repositories
from infra.kubernetes.pool_limits import pool_limits
from infra.observability.watched import Watched
from infra.settings.large_checks import check_large, zones_with_gpus
from infra.settings.root import Settings
from infra.settings.zones import stack_zones
from infra.stacks.base import KitStack
from infra.stacks.edge import Edge, edge_of
from infra.stacks.foundation import Foundation, FoundationProps
from infra.stacks.installation import InstallationProps, install
from infra.stacks.observation import observe
from infra.stacks.pods import Pods, PodsProps


class LargeStack(KitStack):
    """One cluster and what it stands on."""

    def __init__(self, scope: Any, settings: Settings, today: date) -> None:
        own = settings.large
        zones = stack_zones(own.network, settings.region, preferred=zones_with_gpus(own, settings.region))
        notice = check_large(own, region=settings.region, zones=zones, today=today)
        if notice is not None:
            print(f"eagle3-kit: {notice}", file=sys.stderr)  # noqa: T201, what a deployment shows its user
        super().__init__(scope, "large", settings, zones=zones, budget=own.budget)
        self.settings, self.own = settings, own
        self.limits = [
            pool_limits(pool, region=settings.region, budget_usd=own.budget.monthly_usd) for pool in own.pools
        ]
        self.cluster_name = self.site.named("cluster")
        self.metrics_log_group = f"/eagle3/{self.cluster_name}/metrics"
        self.base = Foundation(
            self,
            FoundationProps(
                settings=settings,
                network=own.network,
                budget=own.budget,
                domains=("data", "logs", "secrets", "volumes", "notifications"),
                services=cluster_services(edge=own.edge.enabled),
                cluster_name=self.cluster_name,
                has_edge=own.edge.enabled,
            ),
        )
        self.groups = self._log_groups()
        self.roles = ClusterRoles(
            self,
            "Roles",
            ClusterRolesProps(
                site=self.site, cluster_name=self.cluster_name, secrets_key_arn=self.base.keys["secrets"].arn
            ),
        )
        self.interruption = Interruption(
            self, "Interruption", InterruptionProps(site=self.site, cluster_name=self.cluster_name)
        )
        self.repositories = Registry(
            self,
            "Registry",
            RegistryProps(
                site=self.site,
                key_arn=self.base.keys["data"].arn,
                repositories=mirrored_repositories(own.components),
                force_delete=settings.destroy_data,
            ),
        ).repositories
        self.store = ArtifactStore(
            bucket=self.base.models.versioned_name, bucket_arn=self.base.models.arn, key_arn=self.base.keys["data"].arn
        )
        self.bootstrap = self._bootstrap()
        self.cluster = self._cluster()
        self.edge: Edge | None = edge_of(
            self,
            own.edge,
            settings.alarms,
            base=self.base,
            node_group_id=self.cluster.node_security_group_id,
            port=own.deployment.serving.port,
        )
        started = self._inside()
        install(
            self,
            InstallationProps(
                settings=settings,
                own=own,
                limits=self.limits,
                base=self.base,
                cluster_name=self.cluster_name,
                node_group_id=self.cluster.node_security_group_id,
                instance_profile=self.roles.karpenter_instance_profile_name,
                queue_name=self.interruption.queue_name,
                repositories={name: made.url for name, made in self.repositories.items()},
                store=self.store,
                mirror=Project(name=self.mirror.project_name, arn=self.mirror.project_arn),
                bootstrap=Project(name=self.bootstrap.project_name, arn=self.bootstrap.project_arn),
                metrics_log_group=self.metrics_log_group,
                edge=self.edge,
                after=started,
            ),
        )
        observe(
            self,
            settings.alarms,
            own.budget,
            watched=self._watched(),
            topic_arn=self.base.notifications.topic_arn,
        )
        self.output("ClusterName", self.cluster.name, "EKS cluster; its API is reached from inside the VPC")
        self.output(
            "BeforeDestroy",
            self.bootstrap.remove_command,
            "Run it and wait for its end before `cdktf destroy large`: it drains the nodes that Karpenter started",
        )

    def _log_groups(self) -> LogGroups:
        agent = self.own.cluster.cloudwatch_agent
        specs = [
            LogGroupSpec(id="ControlPlane", name=cluster_log_group(self.cluster_name), kind="records"),
            LogGroupSpec(id="Mirror", name=build_log_group(self.site.named("mirror")), kind="records"),
            LogGroupSpec(id="Bootstrap", name=build_log_group(self.site.named("bootstrap")), kind="records"),
        ]
        if agent.enabled:
            specs.append(LogGroupSpec(id="Runtime", name=self.metrics_log_group, kind="metrics"))
        if agent.container_logs:
            specs += [
                LogGroupSpec(id=f"Containers{number}", name=name, kind="records")
                for number, name in enumerate(container_log_groups(self.cluster_name))
            ]
        if agent.container_insights:
            specs.append(LogGroupSpec(id="Insights", name=insights_log_group(self.cluster_name), kind="metrics"))
        return LogGroups(
            self,
            "LogGroups",
            LogGroupsProps(
                site=self.site,
                key_arn=self.base.keys["logs"].arn,
                retention_days=self.settings.alarms.log_retention_days,
                groups=tuple(specs),
            ),
        )

    def _bootstrap(self) -> ClusterBootstrap:
        own, network = self.own, self.base.network
        self.mirror = ArtifactMirror(
            self,
            "Mirror",
            ArtifactMirrorProps(
                site=self.site,
                components=own.components,
                store=self.store,
                repositories={
                    name: MirrorTarget(url=made.url, arn=made.arn) for name, made in self.repositories.items()
                },
                log=BuildLog(name=self.groups.names["Mirror"], arn=self.groups.arns["Mirror"]),
            ),
        )
        return ClusterBootstrap(
            self,
            "ClusterBootstrap",
            ClusterBootstrapProps(
                site=self.site,
                components=own.components,
                pools=tuple(pool.name for pool in own.pools),
                own_chart=own.workload.chart_archive is not None,
                cluster_name=self.cluster_name,
                vpc_id=network.vpc_id,
                vpc_cidr=network.cidr,
                subnets=network.private_subnets,
                s3_prefix_list_id=self.base.vpc_endpoints.s3_prefix_list_id,
                isolated=own.network.nat == "none",
                store=self.store,
                log=BuildLog(name=self.groups.names["Bootstrap"], arn=self.groups.arns["Bootstrap"]),
            ),
        )

    def _cluster(self) -> Cluster:
        return Cluster(
            self,
            "Cluster",
            ClusterProps(
                site=self.site,
                cluster_name=self.cluster_name,
                settings=self.own.cluster,
                vpc_id=self.base.network.vpc_id,
                subnets=self.base.network.intra_subnets,
                role_arn=self.roles.cluster_role_arn,
                secrets_key_arn=self.base.keys["secrets"].arn,
                api_clients={"Bootstrap": self.bootstrap.security_group_id},
                log_group_ready=self.groups.resources["ControlPlane"],
                role_ready=self.roles.cluster_ready,
            ),
        )

    def _inside(self) -> tuple[Any, ...]:
        """Access, add-ons, nodes and rights of pods; returns what must be there before anything is installed."""
        own, cluster = self.own, self.cluster
        access = ClusterAccess(
            self,
            "Access",
            ClusterAccessProps(
                site=self.site,
                cluster_name=cluster.name,
                node_role_arn=self.roles.karpenter_node_role_arn,
                bootstrap_role_arn=self.bootstrap.role_arn,
                administrators=own.cluster.administrators,
                viewers=own.cluster.viewers,
            ),
        )
        network_addons = NetworkAddons(
            self, "NetworkAddons", NetworkAddonsProps(cluster=cluster.name, versions=own.cluster.addons)
        )
        nodes = SystemNodes(
            self,
            "SystemNodes",
            SystemNodesProps(
                site=self.site,
                cluster=cluster.name,
                kubernetes_version=own.cluster.kubernetes_version,
                settings=own.cluster.system_nodes,
                subnets=self.base.network.private_subnets,
                security_group_id=cluster.node_security_group_id,
                role_arn=self.roles.system_node_role_arn,
                volumes_key_arn=self.base.keys["volumes"].arn,
                after=(*self.roles.system_node_ready, *cluster.ready, *network_addons.ready),
                tags=self.tags,
            ),
        )
        pods = Pods(
            self,
            PodsProps(
                own=own,
                cluster=cluster.name,
                cluster_name=self.cluster_name,
                node_role_arn=self.roles.karpenter_node_role_arn,
                queue_arn=self.interruption.queue_arn,
                models_arn=self.base.models.arn,
                data_key_arn=self.base.keys["data"].arn,
                telemetry_group_arns=tuple(
                    arn for id, arn in self.groups.arns.items() if id.startswith(("Runtime", "Containers", "Insights"))
                ),
                target_group_arn=None if self.edge is None else self.edge.target_group_arn,
            ),
        )
        addons = WorkloadAddons(
            self,
            "WorkloadAddons",
            WorkloadAddonsProps(
                cluster=cluster.name,
                cluster_name=self.cluster_name,
                region=self.site.region,
                versions=own.cluster.addons,
                cloudwatch_agent=own.cluster.cloudwatch_agent,
                after=(*nodes.ready, *pods.ready),
            ),
        )
        return (*access.ready, *nodes.ready, *pods.ready, *addons.ready)

    def _watched(self) -> Watched:
        own = self.own
        smallest = min((gpu_instance(name) for pool in own.pools for name in pool.instance_types), key=_memory_mib)
        return Watched(
            runtime_namespace=own.deployment.metrics.namespace,
            runtime_metrics=own.cluster.cloudwatch_agent.enabled,
            depth=own.deployment.speculation.depth,
            gpu_memory_mib=smallest.gpu_memory_mib * own.deployment.engine.tensor_parallel,
            cluster_name=self.cluster_name,
            spot_rule_name=dict(zip(EVENTS, self.interruption.rule_names, strict=True))["spot-interruption"],
            interruption_queue_name=self.interruption.queue_name,
            bootstrap_project_name=self.bootstrap.project_name,
            load_balancer_suffix=None if self.edge is None else self.edge.load_balancer_suffix,
        )


def _memory_mib(instance: Any) -> int:
    return int(instance.gpu_memory_mib)

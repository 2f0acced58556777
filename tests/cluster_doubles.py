"""The cluster's constructs wired together as a stack does it, with stand-ins for what other constructs bring."""

from __future__ import annotations

from functools import cache
from typing import Any

from infra.constructs.cluster.access import ClusterAccess, ClusterAccessProps
from infra.constructs.cluster.addons import (
    CLOUDWATCH_NAMESPACE,
    CLOUDWATCH_SERVICE_ACCOUNT,
    EBS_CSI_NAMESPACE,
    EBS_CSI_SERVICE_ACCOUNT,
    NetworkAddons,
    NetworkAddonsProps,
    WorkloadAddons,
    WorkloadAddonsProps,
)
from infra.constructs.cluster.cluster import Cluster, ClusterProps
from infra.constructs.cluster.interruption import Interruption, InterruptionProps
from infra.constructs.cluster.karpenter_access import NAMESPACE, SERVICE_ACCOUNT, KarpenterAccess, karpenter_policies
from infra.constructs.cluster.pod_identity import PodIdentity, PodIdentityProps
from infra.constructs.cluster.pod_rights import ebs_csi_policy_arn, read_metrics, write_telemetry
from infra.constructs.cluster.roles import ClusterRoles, ClusterRolesProps
from infra.constructs.cluster.system_nodes import SystemNodes, SystemNodesProps
from infra.constructs.operations.log_groups import cluster_log_group
from infra.framework import aws
from infra.settings.cluster import ClusterSettings
from infra.site import Subnet
from infra_doubles import SITE, Synthesized, synthesize

CLUSTER_NAME = SITE.named("cluster")
ADMINISTRATOR = "arn:aws:iam::123456789012:role/platform"
VIEWER = "arn:aws:iam::123456789012:role/support"


def build_cluster(stack: Any, settings: ClusterSettings, *, karpenter: dict[str, Any] | None = None) -> None:
    """Everything of the cluster in one stack."""
    vpc = aws.Vpc(stack, "Vpc", cidr_block="10.0.0.0/16")
    subnets = tuple(
        Subnet(
            id=aws.Subnet(
                stack, f"Subnet{i}", vpc_id=vpc.id, availability_zone=zone, cidr_block=f"10.0.{16 * i}.0/20"
            ).id,
            zone=zone,
        )
        for i, zone in enumerate(SITE.zones)
    )
    runner = aws.SecurityGroup(stack, "RunnerGroup", vpc_id=vpc.id, description="Bootstrap runner")
    runner_role = aws.IamRole(stack, "RunnerRole", name="runner", assume_role_policy="{}")
    secrets = aws.KmsKey(stack, "SecretsKey", description="secrets", enable_key_rotation=True)
    volumes = aws.KmsKey(stack, "VolumesKey", description="volumes", enable_key_rotation=True)
    logs = aws.CloudwatchLogGroup(stack, "ClusterLogs", name=cluster_log_group(CLUSTER_NAME), retention_in_days=365)
    metrics = aws.CloudwatchLogGroup(stack, "Metrics", name="/Eagle3/metrics", retention_in_days=30)

    roles = ClusterRoles(
        stack, "Roles", ClusterRolesProps(site=SITE, cluster_name=CLUSTER_NAME, secrets_key_arn=secrets.arn)
    )
    cluster = Cluster(
        stack,
        "Cluster",
        ClusterProps(
            site=SITE,
            cluster_name=CLUSTER_NAME,
            settings=settings,
            vpc_id=vpc.id,
            subnets=subnets,
            role_arn=roles.cluster_role_arn,
            secrets_key_arn=secrets.arn,
            api_clients={"Runner": runner.id},
            log_group_ready=logs,
            role_ready=roles.cluster_ready,
        ),
    )
    ClusterAccess(
        stack,
        "Access",
        ClusterAccessProps(
            site=SITE,
            cluster_name=cluster.name,
            node_role_arn=roles.karpenter_node_role_arn,
            bootstrap_role_arn=runner_role.arn,
            administrators=settings.administrators,
            viewers=settings.viewers,
        ),
    )
    network = NetworkAddons(stack, "NetworkAddons", NetworkAddonsProps(cluster=cluster.name, versions=settings.addons))
    nodes = SystemNodes(
        stack,
        "SystemNodes",
        SystemNodesProps(
            site=SITE,
            cluster=cluster.name,
            kubernetes_version=settings.kubernetes_version,
            settings=settings.system_nodes,
            subnets=subnets,
            security_group_id=cluster.node_security_group_id,
            role_arn=roles.system_node_role_arn,
            volumes_key_arn=volumes.arn,
            after=(*roles.system_node_ready, *cluster.ready, *network.ready),
            tags={"eagle3:environment": "test"},
        ),
    )

    def identity(id: str, suffix: str, namespace: str, service_account: str, **rights: Any) -> PodIdentity:
        return PodIdentity(
            stack,
            id,
            PodIdentityProps(
                site=SITE,
                cluster=cluster.name,
                cluster_name=CLUSTER_NAME,
                suffix=suffix,
                namespace=namespace,
                service_account=service_account,
                **rights,
            ),
        )

    volumes_identity = identity(
        "EbsCsiIdentity",
        "ebs-csi",
        EBS_CSI_NAMESPACE,
        EBS_CSI_SERVICE_ACCOUNT,
        managed_policy_arns=(ebs_csi_policy_arn(SITE),),
    )
    telemetry = write_telemetry(log_group_arns=[metrics.arn], namespaces=["ContainerInsights"])
    agent_identity = identity(
        "AgentIdentity",
        "cloudwatch-agent",
        CLOUDWATCH_NAMESPACE,
        CLOUDWATCH_SERVICE_ACCOUNT,
        policies={"telemetry": telemetry},
    )
    identity("KedaIdentity", "keda", "keda", "keda-operator", policies={"metrics": read_metrics()})
    WorkloadAddons(
        stack,
        "WorkloadAddons",
        WorkloadAddonsProps(
            cluster=cluster.name,
            cluster_name=CLUSTER_NAME,
            region=SITE.region,
            versions=settings.addons,
            cloudwatch_agent=settings.cloudwatch_agent,
            after=(*nodes.ready, *volumes_identity.ready, *agent_identity.ready),
        ),
    )
    interruption = Interruption(stack, "Interruption", InterruptionProps(site=SITE, cluster_name=CLUSTER_NAME))
    access = KarpenterAccess(
        site=SITE,
        cluster_name=CLUSTER_NAME,
        node_role_arn=roles.karpenter_node_role_arn,
        queue_arn=interruption.queue_arn,
        **(karpenter or {}),
    )
    identity("KarpenterIdentity", "karpenter", NAMESPACE, SERVICE_ACCOUNT, policies=karpenter_policies(access))


@cache
def cluster_stack() -> Synthesized:
    """A cluster with an administrator and a viewer, everything else by default."""
    settings = ClusterSettings(administrators=(ADMINISTRATOR,), viewers=(VIEWER,))
    return synthesize(lambda stack: build_cluster(stack, settings))


def depends_on(stack: Synthesized, resource: Any) -> set[tuple[str, str]]:
    """(type, id) of everything that a resource waits for, directly or not."""
    waiting, found = [resource], set()
    while waiting:
        values = waiting.pop().values
        direct = stack.references({key: value for key, value in values.items() if key != "depends_on"})
        for name in values.get("depends_on", []):
            kind, _, id = name.partition(".")
            direct += [other for other in stack.all(kind) if other.id == id]
        for other in direct:
            if (other.kind, other.id) not in found:
                found.add((other.kind, other.id))
                waiting.append(other)
    return found

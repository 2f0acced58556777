"""Add-ons that EKS installs: what nodes need to become ready, and what needs nodes to become ready.

Knows no node group and no role; both come as what to wait for. Invariant: the version of an add-on is the pinned one or
the default of the cluster's version, never the newest; the Pod Identity agent is there before any pod asks it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.settings.cluster import AddonSettings, CloudWatchAgentSettings

CLOUDWATCH_NAMESPACE = "amazon-cloudwatch"
CLOUDWATCH_SERVICE_ACCOUNT = "cloudwatch-agent"
EMF_ENDPOINT = "tcp://cloudwatch-agent.amazon-cloudwatch.svc.cluster.local:25888"
"""Where pods send metrics in embedded metric format, each record on a line (`metrics.agent_endpoint`)."""
EBS_CSI_NAMESPACE = "kube-system"
EBS_CSI_SERVICE_ACCOUNT = "ebs-csi-controller-sa"


def container_log_groups(cluster_name: str) -> tuple[str, ...]:
    """Names of the log groups of container logs; made before, they have a key and a retention."""
    return tuple(f"/aws/containerinsights/{cluster_name}/{kind}" for kind in ("application", "dataplane", "host"))


def insights_log_group(cluster_name: str) -> str:
    """Name of the log group that Container Insights writes its metrics to."""
    return f"/aws/containerinsights/{cluster_name}/performance"


def cloudwatch_values(settings: CloudWatchAgentSettings, cluster_name: str, region: str) -> dict[str, Any]:
    """Configuration of the CloudWatch add-on: take embedded metrics from pods; the rest only where asked for."""
    collected: dict[str, Any] = {"emf": {}}
    if settings.container_insights:
        collected["kubernetes"] = {"cluster_name": cluster_name, "enhanced_container_insights": True}
    return {
        # The region is said, since instance metadata is out of reach where the agent is not on the node's network.
        "agent": {"config": {"agent": {"region": region}, "logs": {"metrics_collected": collected}}},
        "containerLogs": {"enabled": settings.container_logs},
        # On by default, it would put a tracing agent into every Python pod, the runtime's too.
        "manager": {"applicationSignals": {"autoMonitor": {"monitorAllServices": False}}},
        # The GPU pools bring an exporter of their own; two on a node fight for the profiling counters.
        "dcgmExporter": {"enabled": False},
        "neuronMonitor": {"enabled": False},
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkAddonsProps:
    """The cluster, and which versions."""

    cluster: Any
    """Name of the cluster as a token of its resource."""
    versions: AddonSettings


class NetworkAddons(Construct):
    """DaemonSets that a node needs from its first minute; active without any node."""

    def __init__(self, scope: Any, id: str, props: NetworkAddonsProps) -> None:
        super().__init__(scope, id)
        versions = props.versions
        self.ready: tuple[Any, ...] = (
            _addon(self, "VpcCni", props.cluster, "vpc-cni", versions.vpc_cni, {"enableNetworkPolicy": "true"}),
            _addon(self, "KubeProxy", props.cluster, "kube-proxy", versions.kube_proxy),
            _addon(self, "PodIdentityAgent", props.cluster, "eks-pod-identity-agent", versions.pod_identity_agent),
        )
        """What the node group waits for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadAddonsProps:
    """The cluster, which add-ons, and what they wait for."""

    cluster: Any
    """Name of the cluster as a token of its resource."""
    cluster_name: str
    """The same name as plain text."""
    region: str
    versions: AddonSettings
    cloudwatch_agent: CloudWatchAgentSettings
    after: tuple[Any, ...]
    """Nodes to run on, and the Pod Identity associations of the EBS driver and of the CloudWatch agent."""


class WorkloadAddons(Construct):
    """Deployments; they stay degraded until there are nodes, so the nodes come first."""

    def __init__(self, scope: Any, id: str, props: WorkloadAddonsProps) -> None:
        super().__init__(scope, id)
        versions, cluster, after = props.versions, props.cluster, props.after
        addons = [
            _addon(self, "CoreDns", cluster, "coredns", versions.coredns, after=after),
            _addon(self, "MetricsServer", cluster, "metrics-server", versions.metrics_server, after=after),
            _addon(self, "EbsCsiDriver", cluster, "aws-ebs-csi-driver", versions.ebs_csi_driver, after=after),
        ]
        if props.cloudwatch_agent.enabled:
            values = cloudwatch_values(props.cloudwatch_agent, props.cluster_name, props.region)
            name = "amazon-cloudwatch-observability"
            addons.append(
                _addon(self, "CloudWatch", cluster, name, versions.cloudwatch_observability, values, after=after)
            )
        self.ready: tuple[Any, ...] = tuple(addons)


def _addon(
    scope: Any,
    id: str,
    cluster: Any,
    name: str,
    version: str | None,
    values: dict[str, Any] | None = None,
    *,
    after: tuple[Any, ...] = (),
) -> Any:
    return aws.EksAddon(
        scope,
        id,
        cluster_name=cluster,
        addon_name=name,
        addon_version=version,
        configuration_values=None if values is None else json.dumps(values),
        # What is in the cluster is what is written here, whatever was changed by hand.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        depends_on=list(after) or None,
    )

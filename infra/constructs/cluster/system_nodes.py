"""Managed node group for everything that needs no GPU.

Knows no pod. Invariant: two zones at least, volumes encrypted with the key given, instance metadata out of the pods'
reach (IMDSv2, one hop). The nodes carry no taint: the GPU pools carry one, so these are the only nodes that take any
other pod, and a taint here (CriticalAddonsOnly) would leave KEDA and whatever else people install nowhere to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from infra.framework import Construct, Token, aws
from infra.settings.cluster import SystemNodeSettings
from infra.site import Site, Subnet

LABELS = {"eagle3/nodes": "system"}
"""On every system node; a selector for what must not run on nodes that Karpenter may take away, Karpenter first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemNodesProps:
    """Where the nodes run and what they use."""

    site: Site
    cluster: Any
    """Name of the cluster as a token of its resource."""
    kubernetes_version: str
    settings: SystemNodeSettings
    subnets: tuple[Subnet, ...]
    """Private subnets in two zones at least."""
    security_group_id: str
    """The cluster's group for nodes."""
    role_arn: str
    volumes_key_arn: str
    after: tuple[Any, ...]
    """What nodes wait for: the role's rights, the cluster's rules, the network add-ons."""
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Cost-allocation tags; a provider's default tags do not reach what a launch template starts."""


class SystemNodes(Construct):
    """Nodes that EKS replaces, repairs and updates."""

    def __init__(self, scope: Any, id: str, props: SystemNodesProps) -> None:
        super().__init__(scope, id)
        assert len({subnet.zone for subnet in props.subnets}) >= 2, "system nodes need subnets in two zones"
        site, settings = props.site, props.settings
        tags = {**props.tags, "Name": site.named("system")}
        template = aws.LaunchTemplate(
            self,
            "Template",
            name=site.named("system"),
            description="System nodes",
            update_default_version=True,
            vpc_security_group_ids=[props.security_group_id],
            monitoring={"enabled": True},
            metadata_options={
                "http_endpoint": "enabled",
                "http_tokens": "required",
                # Pods are one hop further than the node; those on its network (CNI, agents) still reach it.
                "http_put_response_hop_limit": 1,
            },
            block_device_mappings=[
                aws.LaunchTemplateBlockDeviceMappings(
                    device_name="/dev/xvda",
                    ebs=aws.LaunchTemplateBlockDeviceMappingsEbs(
                        volume_size=settings.disk_gib,
                        volume_type="gp3",
                        encrypted="true",
                        kms_key_id=props.volumes_key_arn,
                        delete_on_termination="true",
                    ),
                )
            ],
            tag_specifications=[
                aws.LaunchTemplateTagSpecifications(resource_type=kind, tags=tags)
                for kind in ("instance", "volume", "network-interface")
            ],
        )
        self.resource: Any = aws.EksNodeGroup(
            self,
            "Nodes",
            cluster_name=props.cluster,
            # A new list of instance types makes a new group, which must exist before the old one goes. EKS leaves 37
            # characters for a prefix.
            node_group_name_prefix=f"{site.name}-sys-",
            node_role_arn=props.role_arn,
            subnet_ids=[subnet.id for subnet in props.subnets],
            version=props.kubernetes_version,
            release_version=settings.release_version,
            ami_type="AL2023_x86_64_STANDARD",
            capacity_type="ON_DEMAND",
            instance_types=list(settings.instance_types),
            labels=LABELS,
            launch_template={"id": template.id, "version": Token.as_string(template.latest_version)},
            scaling_config={
                "min_size": settings.min_nodes,
                "desired_size": settings.min_nodes,
                "max_size": settings.max_nodes,
            },
            update_config={"max_unavailable": 1},
            node_repair_config={"enabled": True},
            tags=tags,
            lifecycle={"create_before_destroy": True, "ignore_changes": ["scaling_config[0].desired_size"]},
            depends_on=list(props.after),
        )
        self.ready: tuple[Any, ...] = (self.resource,)

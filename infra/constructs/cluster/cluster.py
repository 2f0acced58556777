"""The EKS cluster and the two security groups between its control plane and its nodes.

Knows no node, add-on or principal. Invariant: the API is reached from inside the VPC only, by members of the node
group and by the clients named; secrets are encrypted with the key given; the nodes reach each other on every port and
protocol (cluster DNS, NCCL and EFA need that).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from infra.framework import Construct, aws
from infra.settings.cluster import ClusterSettings
from infra.site import Site, Subnet

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
DISCOVERY_TAG = "karpenter.sh/discovery"
"""Tag with the cluster's name, by which node classes find security groups (and subnets) of the cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterProps:
    """Where the cluster lives and what it uses."""

    site: Site
    cluster_name: str
    """`site.named("cluster")`."""
    settings: ClusterSettings
    vpc_id: str
    subnets: tuple[Subnet, ...]
    """Private subnets in two zones at least, for the network interfaces of the control plane."""
    role_arn: str
    secrets_key_arn: str
    api_clients: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """PascalCase name to security group of what calls the API from inside the VPC, such as the bootstrap runner."""
    log_group_ready: Any
    """The control-plane log group, which must exist before: EKS would make one without key or retention."""
    role_ready: tuple[Any, ...]
    """What gives the role its rights; the cluster waits for it, and goes before it."""


class Cluster(Construct):
    """A private cluster whose only way in is an access entry."""

    def __init__(self, scope: Any, id: str, props: ClusterProps) -> None:
        super().__init__(scope, id)
        assert len({subnet.zone for subnet in props.subnets}) >= 2, "EKS needs subnets in two zones"
        settings, name = props.settings, props.cluster_name
        # A node may have one security group with this tag only: the load balancer controller looks for it.
        owned = {f"kubernetes.io/cluster/{name}": "owned"}
        control_plane = aws.SecurityGroup(
            self,
            "ControlPlaneGroup",
            name=props.site.named("control-plane"),
            description=f"Control plane of {name}",
            vpc_id=props.vpc_id,
            tags={"Name": props.site.named("control-plane")},
        )
        nodes = aws.SecurityGroup(
            self,
            "NodeGroup",
            name=props.site.named("node"),
            description=f"Nodes of {name}",
            vpc_id=props.vpc_id,
            tags={"Name": props.site.named("node"), DISCOVERY_TAG: name, **owned},
        )
        rules = self._rules(control_plane.id, nodes.id, props.api_clients)

        self.resource: Any = aws.EksCluster(
            self,
            "Cluster",
            name=name,
            version=settings.kubernetes_version,
            role_arn=props.role_arn,
            vpc_config={
                "subnet_ids": [subnet.id for subnet in props.subnets],
                "security_group_ids": [control_plane.id],
                "endpoint_private_access": True,
                "endpoint_public_access": False,
            },
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": False},
            # Add-ons of EKS take the place of the self-managed ones, and are upgraded with the cluster.
            bootstrap_self_managed_addons=False,
            encryption_config={"provider": {"key_arn": props.secrets_key_arn}, "resources": ["secrets"]},
            enabled_cluster_log_types=list(LOG_TYPES),
            upgrade_policy={"support_type": settings.support_type},
            zonal_shift_config={"enabled": settings.zonal_shift},
            deletion_protection=settings.deletion_protection,
            tags={"Name": name},
            depends_on=[props.log_group_ready, *props.role_ready],
        )
        self.name: str = self.resource.name
        self.arn: str = self.resource.arn
        self.endpoint: str = self.resource.endpoint
        self.certificate_authority: str = self.resource.certificate_authority.get(0).data
        self.control_plane_security_group_id: str = control_plane.id
        self.node_security_group_id: str = nodes.id
        self.ready: tuple[Any, ...] = (self.resource, *rules)
        """What nodes wait for: the cluster, and the rules by which they reach it."""

    def _rules(self, control_plane: str, nodes: str, api_clients: Mapping[str, str]) -> tuple[Any, ...]:
        def enter(id: str, group: str, peer: str, description: str, port: int | None) -> Any:
            return aws.VpcSecurityGroupIngressRule(
                self,
                id,
                security_group_id=group,
                referenced_security_group_id=peer,
                description=description,
                ip_protocol="-1" if port is None else "tcp",
                from_port=port,
                to_port=port,
            )

        def leave(id: str, group: str, peer: str, description: str) -> Any:
            return aws.VpcSecurityGroupEgressRule(
                self,
                id,
                security_group_id=group,
                referenced_security_group_id=peer,
                description=description,
                ip_protocol="-1",
            )

        clients = [
            enter(f"{client}ToApi", control_plane, group, f"{client} calls the API", 443)
            for client, group in api_clients.items()
        ]
        return (
            enter("NodesToApi", control_plane, nodes, "nodes call the API", 443),
            leave("ControlPlaneToNodes", control_plane, nodes, "kubelets, webhooks, logs, port forwarding"),
            enter("NodesFromControlPlane", nodes, control_plane, "kubelets, webhooks, logs, port forwarding", None),
            enter("NodesFromNodes", nodes, nodes, "pods of other nodes: DNS, NCCL, EFA", None),
            leave("NodesToNodes", nodes, nodes, "pods of other nodes: DNS, NCCL, EFA"),
            aws.VpcSecurityGroupEgressRule(
                self,
                "NodesToServices",
                security_group_id=nodes,
                cidr_ipv4="0.0.0.0/0",
                description="API, VPC endpoints and the S3 gateway; routes decide what is reached",
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
            ),
            *clients,
        )

"""IAM roles of the cluster itself, of the system nodes and of the nodes that Karpenter starts.

Knows no cluster resource: roles come first. Invariant: each role trusts one service, the cluster's role only on behalf
of this cluster; nodes may pull images, join, and be reached by Session Manager, and hold no right of a workload
(pods get theirs by Pod Identity).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document, trust_policy
from infra.site import Site

NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKS_CNI_Policy",
    "AmazonSSMManagedInstanceCore",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterRolesProps:
    """What the roles are for."""

    site: Site
    cluster_name: str
    """Name that the cluster will have."""
    secrets_key_arn: str
    """Key that encrypts Kubernetes secrets."""


class ClusterRoles(Construct):
    """Three roles; whatever uses one depends on its `..._ready` as well, so that it never acts without its rights."""

    def __init__(self, scope: Any, id: str, props: ClusterRolesProps) -> None:
        super().__init__(scope, id)
        site = props.site
        cluster = aws.IamRole(
            self,
            "Cluster",
            name=site.named("cluster"),
            description=f"Control plane of {props.cluster_name}",
            assume_role_policy=trust_policy(
                "eks.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": site.account_id},
                    "ArnEquals": {"aws:SourceArn": site.arn("eks", f"cluster/{props.cluster_name}")},
                },
            ),
        )
        attached = aws.IamRolePolicyAttachment(
            self, "ClusterPolicy", role=cluster.name, policy_arn=_managed(site, "AmazonEKSClusterPolicy")
        )
        secrets = aws.IamRolePolicy(
            self,
            "ClusterSecrets",
            name="secrets-key",
            role=cluster.name,
            policy=policy_document(
                [
                    Statement(
                        sid="EncryptSecrets",
                        actions=["kms:Encrypt", "kms:Decrypt", "kms:DescribeKey", "kms:ListGrants"],
                        resources=[props.secrets_key_arn],
                    )
                ]
            ),
        )
        self.cluster_role_arn: str = cluster.arn
        self.cluster_ready: tuple[Any, ...] = (attached, secrets)

        system, self.system_node_ready = self._node_role(
            "SystemNode", site, "system-node", f"System nodes of {props.cluster_name}"
        )
        self.system_node_role_arn: str = system.arn

        karpenter, self.karpenter_node_ready = self._node_role(
            "KarpenterNode", site, "karpenter-node", f"Nodes that Karpenter starts for {props.cluster_name}"
        )
        profile = aws.IamInstanceProfile(
            self, "KarpenterNodeProfile", name=site.named("karpenter-node"), role=karpenter.name
        )
        self.karpenter_node_role_arn: str = karpenter.arn
        self.karpenter_node_role_name: str = karpenter.name
        self.karpenter_instance_profile_name: str = profile.name

    def _node_role(self, id: str, site: Site, suffix: str, description: str) -> tuple[Any, tuple[Any, ...]]:
        role = aws.IamRole(
            self,
            id,
            name=site.named(suffix),
            description=description,
            assume_role_policy=trust_policy(f"ec2.{site.dns_suffix}"),
        )
        attachments = tuple(
            aws.IamRolePolicyAttachment(
                self, f"{id}{policy.replace('_', '')}", role=role.name, policy_arn=_managed(site, policy)
            )
            for policy in NODE_POLICIES
        )
        return role, attachments


def _managed(site: Site, name: str) -> str:
    return f"arn:{site.partition}:iam::aws:policy/{name}"

"""Who may enter the cluster: nodes of Karpenter, the bootstrap runner, administrators, viewers.

Knows roles only by ARN. The system nodes have no entry here: EKS makes that of a managed node group itself, and refuses
a second one. Invariant: one entry a principal; nobody is administrator without being named.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.site import Site

ADMINISTRATOR = "AmazonEKSClusterAdminPolicy"
VIEWER = "AmazonEKSViewPolicy"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAccessProps:
    """The cluster and the principals."""

    site: Site
    cluster_name: str
    node_role_arn: str
    """Role of the nodes that Karpenter starts."""
    bootstrap_role_arn: str
    """Role of the runner that installs what is inside the cluster."""
    administrators: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()


class ClusterAccess(Construct):
    """Access entries and the policies associated with them."""

    def __init__(self, scope: Any, id: str, props: ClusterAccessProps) -> None:
        super().__init__(scope, id)
        self._props = props
        # The type maps the role to nodes by itself; it takes no groups, no user name and no policy.
        node_entry = aws.EksAccessEntry(
            self,
            "KarpenterNodes",
            cluster_name=props.cluster_name,
            principal_arn=props.node_role_arn,
            type="EC2_LINUX",
        )
        bootstrap = self._enter("Bootstrap", props.bootstrap_role_arn, ADMINISTRATOR)
        self.ready: tuple[Any, ...] = (node_entry, bootstrap)
        """What the bootstrap runner waits for."""
        for arn in props.administrators:
            self._enter(f"Administrator{_digest(arn)}", arn, ADMINISTRATOR)
        for arn in props.viewers:
            self._enter(f"Viewer{_digest(arn)}", arn, VIEWER)

    def _enter(self, id: str, principal_arn: str, policy: str) -> Any:
        entry = aws.EksAccessEntry(
            self,
            id,
            cluster_name=self._props.cluster_name,
            principal_arn=principal_arn,
            type="STANDARD",
        )
        return aws.EksAccessPolicyAssociation(
            self,
            f"{id}Policy",
            cluster_name=self._props.cluster_name,
            principal_arn=entry.principal_arn,
            policy_arn=f"arn:{self._props.site.partition}:eks::aws:cluster-access-policy/{policy}",
            access_scope={"type": "cluster"},
        )


def _digest(arn: str) -> str:
    """Part of a construct id that stays when the list is put in another order."""
    return hashlib.sha256(arn.encode()).hexdigest()[:8]

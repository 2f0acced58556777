"""AWS rights for the pods of one Kubernetes service account, by EKS Pod Identity.

Knows neither the workload nor the agent add-on that hands out the credentials (`NetworkAddons` installs it). Invariant:
the role can be assumed for that service account, in that namespace, of that cluster, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document, trust_policy
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class PodIdentityProps:
    """Who gets which rights."""

    site: Site
    cluster: Any
    """Name of the cluster as a token of its resource, so that the association waits for it."""
    cluster_name: str
    """The same name as plain text, for the trust policy."""
    suffix: str
    """Last part of the role's name, 31 characters at most."""
    namespace: str
    service_account: str
    policies: Mapping[str, Sequence[Statement]] = field(default_factory=lambda: MappingProxyType({}))
    """Name to statements: inline policies of the role."""
    managed_policy_arns: tuple[str, ...] = ()


class PodIdentity(Construct):
    """A role and its association; pods started before the association have no credentials, so wait for `ready`."""

    def __init__(self, scope: Any, id: str, props: PodIdentityProps) -> None:
        super().__init__(scope, id)
        site = props.site
        assert props.policies or props.managed_policy_arns, f"{id}: a role without rights"
        role = aws.IamRole(
            self,
            "Role",
            name=site.named(props.suffix),
            description=f"Pods of {props.namespace}/{props.service_account} in {props.cluster_name}",
            # Session tags that EKS sets; pods cannot choose them.
            assume_role_policy=trust_policy(
                "pods.eks.amazonaws.com",
                tag_session=True,
                conditions={
                    "StringEquals": {
                        "aws:RequestTag/eks-cluster-arn": site.arn("eks", f"cluster/{props.cluster_name}"),
                        "aws:RequestTag/kubernetes-namespace": props.namespace,
                        "aws:RequestTag/kubernetes-service-account": props.service_account,
                    }
                },
            ),
        )
        rights: list[Any] = [
            aws.IamRolePolicy(
                self,
                f"Policy{''.join(word.capitalize() for word in name.split('-'))}",
                name=name,
                role=role.name,
                policy=policy_document(statements),
            )
            for name, statements in props.policies.items()
        ]
        rights += [
            aws.IamRolePolicyAttachment(self, f"Managed{arn.rpartition('/')[2]}", role=role.name, policy_arn=arn)
            for arn in props.managed_policy_arns
        ]
        association = aws.EksPodIdentityAssociation(
            self,
            "Association",
            cluster_name=props.cluster,
            namespace=props.namespace,
            service_account=props.service_account,
            role_arn=role.arn,
            depends_on=rights,
        )
        self.role_arn: str = role.arn
        self.role_name: str = role.name
        self.ready: tuple[Any, ...] = (association,)

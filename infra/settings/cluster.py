"""The EKS cluster of the large stack: version, access, system nodes, add-ons."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from infra.catalogue.eks_calendar import DEFAULT_VERSION, check_karpenter, check_version, support_notice
from infra.settings.section import Section

PrincipalArn = Annotated[str, StringConstraints(pattern=r"^arn:[\w-]+:iam::\d{12}:(role|user)/[\w+=,.@/-]+$")]
AddonVersion = Annotated[str, StringConstraints(pattern=r"^v\d+\.\d+\.\d+(-\w+)*-eksbuild\.\d+$")]
InstanceType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+\.[a-z0-9]+$")]


class SystemNodeSettings(Section):
    """Nodes for everything that needs no GPU: DNS, Karpenter, KEDA, the autoscaler's metrics."""

    instance_types: tuple[InstanceType, ...] = Field(
        default=("m6i.large", "m6a.large", "m5.large"),
        min_length=1,
        max_length=20,
        description="x86 types to take nodes from; several, so that one type running out is no outage",
    )
    min_nodes: int = Field(default=2, ge=2, le=50, description="nodes at least; two, so that one may fail")
    max_nodes: int = Field(default=4, ge=2, le=50, description="nodes at most, updates included")
    disk_gib: int = Field(default=50, ge=20, le=1000, description="root volume of a node, GiB")
    release_version: str | None = Field(
        default=None,
        pattern=r"^\d+\.\d+\.\d+-\d{8}$",
        description='AMI release such as "1.35.2-20261105"; null: the newest when the group or its version is new',
    )

    @field_validator("instance_types")
    @classmethod
    def _x86_only(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        arm = [name for name in types if re.match(r"(a1|[a-z]+\d+[a-z]*g[a-z]*|[\w-]+-gb\d+)\.", name)]
        if arm:
            raise ValueError(f"the system nodes run an x86 image; got the Arm types {', '.join(arm)}")
        if len(set(types)) != len(types):
            raise ValueError("an instance type is listed twice")
        return types

    @model_validator(mode="after")
    def _room_to_grow(self) -> Self:
        if self.max_nodes < self.min_nodes:
            raise ValueError(f"max_nodes must be at least min_nodes ({self.min_nodes}); got {self.max_nodes}")
        return self


class AddonSettings(Section):
    """Versions of the EKS add-ons; null is the cluster version's default, never the newest."""

    vpc_cni: AddonVersion | None = Field(default=None, description="network of the pods")
    kube_proxy: AddonVersion | None = Field(default=None, description="service addresses on each node")
    coredns: AddonVersion | None = Field(default=None, description="names inside the cluster")
    pod_identity_agent: AddonVersion | None = Field(default=None, description="AWS credentials for pods")
    ebs_csi_driver: AddonVersion | None = Field(default=None, description="volumes of pods")
    metrics_server: AddonVersion | None = Field(default=None, description="processor and memory use for autoscaling")
    cloudwatch_observability: AddonVersion | None = Field(default=None, description="the CloudWatch agent")


class CloudWatchAgentSettings(Section):
    """The agent that takes the runtime's metrics to CloudWatch, where the alarms are."""

    enabled: bool = Field(default=True, description="install it; without it the alarms of the stack see no data")
    container_logs: bool = Field(default=False, description="send the logs of containers too; billed by the GB")
    container_insights: bool = Field(
        default=False, description="send metrics of nodes and pods too; billed by the observation"
    )


class ClusterSettings(Section):
    """The cluster and who may enter it."""

    kubernetes_version: str = Field(
        default=DEFAULT_VERSION,
        pattern=r"^\d+\.\d+$",
        description='EKS version in quotes, such as "1.35"; checked against the dated calendar',
    )
    calendar_override: str | None = Field(
        default=None,
        min_length=10,
        description="why the version stays after standard support; turns on extended support at six times the price",
    )
    system_nodes: SystemNodeSettings = Field(default_factory=SystemNodeSettings, description="nodes without GPU")
    addons: AddonSettings = Field(default_factory=AddonSettings, description="versions of the add-ons")
    cloudwatch_agent: CloudWatchAgentSettings = Field(
        default_factory=CloudWatchAgentSettings, description="metrics and logs to CloudWatch"
    )
    administrators: tuple[PrincipalArn, ...] = Field(
        default=(), description="ARNs of IAM roles and users that may do everything in the cluster"
    )
    viewers: tuple[PrincipalArn, ...] = Field(
        default=(), description="ARNs of IAM roles and users that may read all but secrets"
    )
    zonal_shift: bool = Field(default=False, description="let AWS move traffic out of an impaired zone")
    deletion_protection: bool = Field(
        default=True, description="refuse to delete the cluster; set to false and deploy before destroying the stack"
    )

    @model_validator(mode="after")
    def _one_entry_a_principal(self) -> Self:
        principals = [*self.administrators, *self.viewers]
        twice = sorted({arn for arn in principals if principals.count(arn) > 1})
        if twice:
            raise ValueError(
                f"a principal has one access entry; listed twice in administrators and viewers: {', '.join(twice)}"
            )
        return self

    @model_validator(mode="after")
    def _image_of_this_version(self) -> Self:
        release = self.system_nodes.release_version
        if release is not None and not release.startswith(f"{self.kubernetes_version}."):
            raise ValueError(
                f"system_nodes.release_version must be a release for kubernetes_version {self.kubernetes_version}; "
                f"got {release!r}"
            )
        return self

    @property
    def support_type(self) -> str:
        """Upgrade policy: AWS upgrades by itself when standard support ends, unless there is a reason to stay."""
        return "STANDARD" if self.calendar_override is None else "EXTENDED"


def check_cluster(cluster: ClusterSettings, *, karpenter_version: str, today: date) -> str | None:
    """Check the versions when a stack with a cluster is built; returns a notice to print, or None.

    Raises ConfigError for a version out of support, and for a Karpenter that does not run on it.
    """
    check_version(cluster.kubernetes_version, today, cluster.calendar_override)
    check_karpenter(cluster.kubernetes_version, karpenter_version)
    return support_notice(cluster.kubernetes_version, today, cluster.calendar_override)

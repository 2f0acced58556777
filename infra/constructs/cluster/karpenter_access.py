"""What Karpenter's controller may do in AWS, as policies for its `PodIdentity`.

Knows no construct. Covers the calls of Karpenter 1.11 to 1.14. Invariant: it changes only what carries its cluster's
tags or is created with them, and passes one role to EC2: that of its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.policy import Statement
from infra.site import Site

NAMESPACE = "kube-system"
SERVICE_ACCOUNT = "karpenter"

_DISCOVERY_ACTIONS = (
    "ec2:DescribeCapacityReservations",
    "ec2:DescribeImages",
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceStatus",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribePlacementGroups",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KarpenterAccess:
    """What the controller works with."""

    site: Site
    cluster_name: str
    """Plain text: it is part of the names of tags."""
    node_role_arn: str
    """Role of the nodes, the one in the instance profile of the node classes."""
    queue_arn: str
    """Interruption queue."""
    makes_instance_profiles: bool = False
    """True where a node class names a role; False where all name an instance profile, as they do without NAT: IAM has
    no VPC endpoint that the controller could call to make one."""
    zonal_shift: bool = False
    """True where the cluster takes part in zonal shifts."""


def karpenter_policies(access: KarpenterAccess) -> Mapping[str, tuple[Statement, ...]]:
    """Name of an inline policy to its statements; together below IAM's limit of 10,240 characters a role."""
    policies = {
        "nodes": _nodes(access),
        "role": _role(access),
        "discovery": _discovery(access),
        "interruption": (
            Statement(
                sid="Queue",
                actions=["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
                resources=[access.queue_arn],
            ),
        ),
    }
    if access.makes_instance_profiles:
        policies["instance-profiles"] = _instance_profiles(access)
    if access.zonal_shift:
        cluster = access.site.arn("eks", f"cluster/{access.cluster_name}")
        policies["zonal-shift"] = (
            Statement(
                sid="ZonalShift",
                actions=["arc-zonal-shift:GetManagedResource"],
                conditions={"StringEquals": {"arc-zonal-shift:ResourceIdentifier": cluster}},
            ),
        )
    return policies


def _nodes(access: KarpenterAccess) -> tuple[Statement, ...]:
    site, name = access.site, access.cluster_name

    def ec2(*kinds: str, account: str = site.account_id) -> list[str]:
        return [f"arn:{site.partition}:ec2:{site.region}:{account}:{kind}/*" for kind in kinds]

    created = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
    owned = {
        "StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{name}": "owned"},
        "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
    }
    asked = {f"aws:RequestTag/kubernetes.io/cluster/{name}": "owned", "aws:RequestTag/eks:eks-cluster-name": name}
    pool = {"aws:RequestTag/karpenter.sh/nodepool": "*"}
    launch = ["ec2:RunInstances", "ec2:CreateFleet"]
    return (
        Statement(
            sid="LaunchWith",
            actions=launch,
            # Images and snapshots may be those of AWS; reservations and placement groups those shared with the account.
            resources=ec2("image", "snapshot", account="")
            + ec2("security-group", "subnet")
            + ec2("capacity-reservation", "placement-group", account="*"),
        ),
        Statement(sid="LaunchOwnTemplates", actions=launch, resources=ec2("launch-template"), conditions=owned),
        Statement(
            sid="CreateTagged",
            actions=[*launch, "ec2:CreateLaunchTemplate"],
            resources=ec2(*created),
            conditions={"StringEquals": asked, "StringLike": pool},
        ),
        Statement(
            sid="TagAtCreation",
            actions=["ec2:CreateTags"],
            resources=ec2(*created),
            conditions={
                "StringEquals": {
                    **asked,
                    "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
                },
                "StringLike": pool,
            },
        ),
        Statement(
            sid="NameOwnInstances",
            actions=["ec2:CreateTags"],
            resources=ec2("instance"),
            conditions={
                **owned,
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": name},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                },
            },
        ),
        Statement(
            sid="DeleteOwn",
            actions=["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            resources=ec2("instance", "launch-template"),
            conditions=owned,
        ),
    )


def _role(access: KarpenterAccess) -> tuple[Statement, ...]:
    return (
        Statement(
            sid="PassNodeRole",
            actions=["iam:PassRole"],
            resources=[access.node_role_arn],
            conditions={"StringEquals": {"iam:PassedToService": f"ec2.{access.site.dns_suffix}"}},
        ),
    )


def _instance_profiles(access: KarpenterAccess) -> tuple[Statement, ...]:
    name, region = access.cluster_name, access.site.region
    profiles = [access.site.arn("iam", "instance-profile/*", regional=False)]

    def tags(of: str) -> dict[str, str]:
        return {f"aws:{of}/kubernetes.io/cluster/{name}": "owned", f"aws:{of}/topology.kubernetes.io/region": region}

    request = {**tags("RequestTag"), "aws:RequestTag/eks:eks-cluster-name": name}
    request_class = {"aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"}
    resource_class = {"aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"}
    return (
        Statement(
            sid="CreateProfiles",
            actions=["iam:CreateInstanceProfile"],
            resources=profiles,
            conditions={"StringEquals": request, "StringLike": request_class},
        ),
        Statement(
            sid="TagOwnProfiles",
            actions=["iam:TagInstanceProfile"],
            resources=profiles,
            conditions={
                "StringEquals": {**tags("ResourceTag"), **request},
                "StringLike": {**resource_class, **request_class},
            },
        ),
        Statement(
            sid="ChangeOwnProfiles",
            actions=[
                "iam:AddRoleToInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:DeleteInstanceProfile",
            ],
            resources=profiles,
            conditions={"StringEquals": tags("ResourceTag"), "StringLike": resource_class},
        ),
    )


def _discovery(access: KarpenterAccess) -> tuple[Statement, ...]:
    site = access.site
    return (
        Statement(
            sid="ReadEc2",
            actions=_DISCOVERY_ACTIONS,
            conditions={"StringEquals": {"aws:RequestedRegion": site.region}},
        ),
        Statement(
            sid="ReadImageIds",
            actions=["ssm:GetParameter"],
            resources=[f"arn:{site.partition}:ssm:{site.region}::parameter/aws/service/*"],
        ),
        # The price list and lists of profiles know no resource.
        Statement(sid="ReadPrices", actions=["pricing:GetProducts"]),
        Statement(sid="ListProfiles", actions=["iam:ListInstanceProfiles"]),
        Statement(
            sid="ReadProfiles",
            actions=["iam:GetInstanceProfile"],
            resources=[site.arn("iam", "instance-profile/*", regional=False)],
        ),
        Statement(
            sid="ReadCluster",
            actions=["eks:DescribeCluster"],
            resources=[site.arn("eks", f"cluster/{access.cluster_name}")],
        ),
    )

"""The role that SageMaker runs an endpoint's container with: its weights, its image, its logs, and no more.

Knows no endpoint resource, only names and ARNs. Invariant: every statement names its resources, except for the three
kinds of calls that AWS knows none for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document, trust_policy
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class BucketFolder:
    """Objects of a bucket below a prefix."""

    bucket_arn: str
    """The bucket."""
    prefix: str
    """Folders, ending in "/"."""

    @property
    def objects_arn(self) -> str:
        """Pattern of the objects' ARNs."""
        return f"{self.bucket_arn}/{self.prefix}*"


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointNetwork:
    """Where the container's network interfaces are."""

    vpc_id: str
    """The VPC."""
    subnet_ids: tuple[str, ...]
    """Private subnets."""
    security_group_id: str
    """Security group of the container."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointRoleProps:
    """What the container needs."""

    site: Site
    """Account and region."""
    repository_arn: str
    """Repository of the image."""
    log_group_arn: str
    """Log group of the endpoint."""
    metrics_namespace: str
    """CloudWatch namespace that the container may write to."""
    data_key_arn: str
    """Key of buckets and volumes."""
    network: EndpointNetwork | None
    """None for a container outside of the VPC (serverless)."""
    read: tuple[BucketFolder, ...] = ()
    """Weights, and requests of an asynchronous endpoint."""
    write: tuple[BucketFolder, ...] = ()
    """Answers of an asynchronous endpoint, captured data."""
    topic_arns: tuple[str, ...] = ()
    """Topics that an asynchronous endpoint notifies."""
    topic_key_arn: str | None = None
    """Key of these topics."""


class EndpointRole(Construct):
    """An execution role of one endpoint."""

    def __init__(self, scope: Any, id: str, props: EndpointRoleProps) -> None:
        super().__init__(scope, id)
        site = props.site
        role = aws.IamRole(
            self,
            "Role",
            name=site.named("endpoint"),
            description="SageMaker runs the endpoint's container with it",
            assume_role_policy=trust_policy(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": site.account_id}}
            ),
        )
        statements = [*_platform(props), *_objects(props), *_keys(props), *_network(props)]
        policy = aws.IamRolePolicy(self, "Policy", name="endpoint", role=role.name, policy=policy_document(statements))
        self.arn: str = role.arn
        """The role."""
        self.ready: tuple[Any, ...] = (policy,)
        """Must exist before a model uses the role, which without its policy could not fetch anything."""


def _platform(props: EndpointRoleProps) -> list[Statement]:
    site = props.site
    return [
        Statement(sid="RegistryLogin", actions=["ecr:GetAuthorizationToken"]),
        Statement(
            sid="PullImage",
            actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            resources=[props.repository_arn],
        ),
        # SageMaker asks for the group even where it exists; it may only ever make this one.
        Statement(
            sid="WriteLogs",
            actions=["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            resources=[props.log_group_arn, f"{props.log_group_arn}:*"],
        ),
        Statement(
            sid="PutMetrics",
            actions=["cloudwatch:PutMetricData"],
            conditions={"StringEquals": {"cloudwatch:namespace": props.metrics_namespace}},
        ),
        # A rollout watches its rollback alarms with this role; the call knows only all alarms of a region.
        Statement(
            sid="WatchAlarms",
            actions=["cloudwatch:DescribeAlarms"],
            resources=[site.arn("cloudwatch", "alarm:*")],
        ),
    ]


def _objects(props: EndpointRoleProps) -> list[Statement]:
    statements = []
    if props.read:
        statements.append(
            Statement(sid="ReadObjects", actions=["s3:GetObject"], resources=[it.objects_arn for it in props.read])
        )
    for number, (bucket_arn, prefixes) in enumerate(_by_bucket(props.read).items()):
        statements.append(
            Statement(
                sid=f"ListFolders{number}",
                actions=["s3:ListBucket"],
                resources=[bucket_arn],
                conditions={"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}},
            )
        )
    if props.write:
        statements.append(
            Statement(
                sid="WriteObjects",
                actions=["s3:PutObject", "s3:AbortMultipartUpload"],
                resources=[it.objects_arn for it in props.write],
            )
        )
    if props.topic_arns:
        statements.append(Statement(sid="Notify", actions=["sns:Publish"], resources=props.topic_arns))
    return statements


def _keys(props: EndpointRoleProps) -> list[Statement]:
    statements = [
        Statement(
            sid="UseDataKey",
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
            resources=[props.data_key_arn],
        ),
        # For the volumes of the instances: SageMaker hands the key on to EBS.
        Statement(
            sid="GrantDataKey",
            actions=["kms:CreateGrant"],
            resources=[props.data_key_arn],
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]
    if props.topic_arns and props.topic_key_arn is not None:
        statements.append(
            Statement(
                sid="UseTopicKey",
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[props.topic_key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"sns.{props.site.region}.{props.site.dns_suffix}"}},
            )
        )
    return statements


def _network(props: EndpointRoleProps) -> list[Statement]:
    network, site = props.network, props.site
    if network is None:
        return []
    in_vpc = {"ArnEquals": {"ec2:Vpc": site.arn("ec2", f"vpc/{network.vpc_id}")}}
    interfaces = site.arn("ec2", "network-interface/*")
    return [
        Statement(
            sid="FindNetwork",
            actions=[
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
        ),
        # The interface to be made has no VPC to ask for yet: its subnet and its group bind it.
        Statement(
            sid="JoinNetwork",
            actions=["ec2:CreateNetworkInterface"],
            resources=[
                *(site.arn("ec2", f"subnet/{subnet}") for subnet in network.subnet_ids),
                site.arn("ec2", f"security-group/{network.security_group_id}"),
                interfaces,
            ],
        ),
        Statement(
            sid="UseInterfaces",
            actions=[
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            resources=[interfaces],
            conditions=in_vpc,
        ),
    ]


def _by_bucket(folders: Sequence[BucketFolder]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for folder in folders:
        found.setdefault(folder.bucket_arn, []).append(folder.prefix)
    return found

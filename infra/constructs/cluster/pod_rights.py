"""AWS rights of the pods that are not Karpenter, as statements for their `PodIdentity`.

Knows no construct. Invariant: what a pod may read or write is named; a metric goes into the namespaces named only.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.policy import Statement
from infra.site import Site


def ebs_csi_policy_arn(site: Site) -> str:
    """AWS's own policy for the EBS driver; the volumes' key lets the account in by its key policy."""
    return f"arn:{site.partition}:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"


def read_models(site: Site, *, bucket_arn: str, key_arn: str) -> tuple[Statement, ...]:
    """The runtime: read weights from the bucket of models and decrypt them, through S3 only."""
    return (
        Statement(sid="ListModels", actions=["s3:ListBucket"], resources=[bucket_arn]),
        Statement(sid="ReadModels", actions=["s3:GetObject"], resources=[f"{bucket_arn}/*"]),
        Statement(
            sid="DecryptModels",
            actions=["kms:Decrypt"],
            resources=[key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"s3.{site.region}.{site.dns_suffix}"}},
        ),
    )


def read_metrics() -> tuple[Statement, ...]:
    """KEDA: read metrics; CloudWatch knows no resources for it."""
    return (Statement(sid="ReadMetrics", actions=["cloudwatch:GetMetricData", "cloudwatch:ListMetrics"]),)


def write_telemetry(*, log_group_arns: Sequence[str], namespaces: Sequence[str]) -> tuple[Statement, ...]:
    """CloudWatch agent: write to log groups that exist already (metrics in embedded format go there too).

    `log_group_arns` are without the `:*` at their end.
    """
    return (
        Statement(
            sid="WriteLogs",
            actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            resources=[item for arn in log_group_arns for item in (arn, f"{arn}:log-stream:*")],
        ),
        Statement(sid="FindLogGroups", actions=["logs:DescribeLogGroups"]),
        Statement(
            sid="WriteMetrics",
            actions=["cloudwatch:PutMetricData"],
            conditions={"StringEquals": {"cloudwatch:namespace": list(namespaces)}},
        ),
        # Container Insights looks up the disks and tags of the node that the agent runs on.
        Statement(sid="DescribeNode", actions=["ec2:DescribeTags", "ec2:DescribeVolumes"]),
    )


def register_targets(*, target_group_arns: Sequence[str]) -> tuple[Statement, ...]:
    """Load balancer controller, for target groups that exist already: enter and leave pods, change nothing else."""
    return (
        Statement(
            sid="RegisterPods",
            actions=["elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets"],
            resources=list(target_group_arns),
        ),
        Statement(
            sid="ReadTargets",
            actions=[
                "elasticloadbalancing:DescribeTags",
                "elasticloadbalancing:DescribeTargetGroupAttributes",
                "elasticloadbalancing:DescribeTargetGroups",
                "elasticloadbalancing:DescribeTargetHealth",
                "ec2:DescribeAvailabilityZones",
                "ec2:DescribeInstances",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
        ),
    )

"""Records of a VPC's connections.

Knows the VPC by its id. The default writes to the audit archive in S3: a GB of delivered records costs half of what a
log group takes, compressed files a tenth of its storage, and no role is needed. Invariant: what is written is
encrypted by a key of ours, and only the flow-log service may write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document, trust_policy
from infra.settings.network import FlowLogSettings
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class FlowLogsProps:
    """What flow logs are made from."""

    site: Site
    vpc_id: str
    """Token."""
    settings: FlowLogSettings
    archive_arn: str | None = None
    """Bucket that lets the log delivery in, for the destination s3."""
    key_arn: str | None = None
    """Key of the log group, for the destination cloudwatch."""


class FlowLogs(Construct):
    """One flow log of a VPC; made only where the settings enable it."""

    def __init__(self, scope: Any, id: str, props: FlowLogsProps) -> None:
        super().__init__(scope, id)
        assert props.settings.enabled
        self.log_group_name: str | None = None
        """For the destination cloudwatch."""
        if props.settings.destination == "s3":
            assert props.archive_arn is not None, "the destination s3 needs a bucket"
            to = {"log_destination_type": "s3", "log_destination": props.archive_arn}
        else:
            to = self._to_log_group(props)
        aws.FlowLog(
            self,
            "FlowLog",
            vpc_id=props.vpc_id,
            traffic_type=props.settings.traffic_type,
            max_aggregation_interval=props.settings.aggregation_s,
            tags={"Name": props.site.named("flow-log")},
            **to,
        )

    def _to_log_group(self, props: FlowLogsProps) -> dict[str, Any]:
        assert props.key_arn is not None, "the destination cloudwatch needs a key"
        site = props.site
        group = aws.CloudwatchLogGroup(
            self,
            "LogGroup",
            name=f"/aws/vpc/{site.name}/flow-logs",
            retention_in_days=props.settings.retention_days,
            kms_key_id=props.key_arn,
        )
        self.log_group_name = group.name
        role = aws.IamRole(
            self,
            "Role",
            name=site.named("flow-logs"),
            description="Writes the flow logs of the VPC to their log group",
            assume_role_policy=trust_policy(
                "vpc-flow-logs.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": site.account_id},
                    "ArnLike": {"aws:SourceArn": site.arn("ec2", "vpc-flow-log/*")},
                },
            ),
        )
        write = Statement(
            sid="WriteFlowLogs",
            actions=["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"],
            resources=[f"{group.arn}:*"],
        )
        policy = aws.IamRolePolicy(self, "RolePolicy", name="write", role=role.id, policy=policy_document([write]))
        return {
            "log_destination_type": "cloud-watch-logs",
            "log_destination": group.arn,
            "iam_role_arn": role.arn,
            # Delivery tries the role when the flow log is made.
            "depends_on": [policy],
        }

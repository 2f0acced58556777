"""Who did what: the archive of audit records, and the trail that writes the account's API calls to it.

Knows the buckets that it watches by ARN. Invariants: only the account's own trail and log delivery write to the
archive; records grow cold, and go when the settings say; each file of the trail can be proven unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.checkov import skip
from infra.constructs.foundation.bucket import SecureBucket, SecureBucketProps, Transition, bucket_arn
from infra.framework import Construct, aws
from infra.policy import Statement, policy_document, trust_policy
from infra.settings.audit import AuditSettings
from infra.site import Site

ARCHIVE = "audit"
_OWNED = {"s3:x-amz-acl": "bucket-owner-full-control"}


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditArchiveProps:
    """What the archive is made from."""

    site: Site
    key_arn: str
    """Key of the domain logs."""
    log_bucket: str | None
    """Bucket of the access log; null: none is kept."""
    settings: AuditSettings
    """When records move and go."""
    force_destroy: bool = False
    """Whether destroying the stack deletes the records."""


class AuditArchive(Construct):
    """The bucket of CloudTrail's files and of flow logs."""

    def __init__(self, scope: Any, id: str, props: AuditArchiveProps) -> None:
        super().__init__(scope, id)
        settings = props.settings
        # Files below 128 KB stay where they are: moving them costs more than colder storage saves (S3's own rule).
        moves = [Transition(after_days=settings.archive_after_days, storage_class="GLACIER")]
        if settings.deep_archive_after_days is not None:
            moves.append(Transition(after_days=settings.deep_archive_after_days, storage_class="DEEP_ARCHIVE"))
        exceptions = {
            "CKV_AWS_144": "records are kept in the region that they speak of; the trail's digests prove them whole",
            "CKV2_AWS_62": "the trail's topic tells of new files",
        }
        if props.log_bucket is None:
            exceptions["CKV_AWS_18"] = "no bucket for access logs is given"
        bucket = SecureBucket(
            self,
            "Archive",
            SecureBucketProps(
                site=props.site,
                suffix=ARCHIVE,
                key_arn=props.key_arn,
                log_bucket=props.log_bucket,
                statements=[*_trail_statements(props.site), *_delivery_statements(props.site)],
                transitions=moves,
                expire_after_days=settings.retention_days,
                force_destroy=props.force_destroy,
                exceptions=exceptions,
            ),
        )
        self.name: str = bucket.name
        """Token."""
        self.arn: str = bucket.arn
        """Token."""
        self.writable_name: str = bucket.writable_name
        """Token, known once the policy stands: for the trail."""
        self.writable_arn: str = f"arn:{props.site.partition}:s3:::{bucket.writable_name}"
        """The same as an ARN: for flow logs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditTrailProps:
    """What the trail is made from."""

    site: Site
    bucket: str
    """Name of the archive, known once CloudTrail is let in (`AuditArchive.writable_name`)."""
    key_arn: str
    """Key of the domain logs."""
    notifications_key_arn: str
    """Key of the domain notifications."""
    settings: AuditSettings
    """Whether there are data events and a log group."""
    data_bucket_arns: Sequence[str] = ()
    """Buckets whose reads and writes are recorded: that of the models."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _LogGroup:
    """Where a trail is copied to, if anywhere."""

    arn: str | None = None
    role_arn: str | None = None
    policies: tuple[Any, ...] = ()


class AuditTrail(Construct):
    """CloudTrail of the account in all regions, with a topic that tells of each file."""

    def __init__(self, scope: Any, id: str, props: AuditTrailProps) -> None:
        super().__init__(scope, id)
        topic, let_in = self._topic(props)
        logs = self._log_group(props) if props.settings.log_group else _LogGroup()
        trail = aws.Cloudtrail(
            self,
            "Trail",
            name=trail_name(props.site),
            s3_bucket_name=props.bucket,
            kms_key_id=props.key_arn,
            sns_topic_name=topic,
            enable_logging=True,
            enable_log_file_validation=True,
            is_multi_region_trail=True,
            include_global_service_events=True,
            event_selector=_data_events(props) or None,
            cloud_watch_logs_group_arn=logs.arn,
            cloud_watch_logs_role_arn=logs.role_arn,
            # CloudTrail tries topic and role when the trail is made.
            depends_on=[let_in, *logs.policies],
        )
        if not props.settings.log_group:
            skip(trail, "CKV2_AWS_10", "a log group bills every event; audit.log_group adds one, S3 keeps all events")
        self.arn: str = trail.arn
        """Token."""

    def _topic(self, props: AuditTrailProps) -> tuple[str, Any]:
        name = props.site.named("trail")
        topic = aws.SnsTopic(self, "Topic", name=name, kms_master_key_id=props.notifications_key_arn)
        publish = Statement(
            sid="CloudTrailPublishes",
            actions=["sns:Publish"],
            services=["cloudtrail.amazonaws.com"],
            resources=[topic.arn],
            conditions={"StringEquals": {"aws:SourceArn": trail_arn(props.site)}},
        )
        policy = aws.SnsTopicPolicy(self, "TopicPolicy", arn=topic.arn, policy=policy_document([publish]))
        return str(topic.name), policy

    def _log_group(self, props: AuditTrailProps) -> _LogGroup:
        site = props.site
        group = aws.CloudwatchLogGroup(
            self,
            "LogGroup",
            name=f"/aws/cloudtrail/{site.name}",
            retention_in_days=props.settings.log_group_days,
            kms_key_id=props.key_arn,
        )
        role = aws.IamRole(
            self,
            "LogGroupRole",
            name=site.named("trail-logs"),
            description="Copies the events of the trail to their log group",
            assume_role_policy=trust_policy(
                "cloudtrail.amazonaws.com", conditions={"StringEquals": {"aws:SourceArn": trail_arn(site)}}
            ),
        )
        write = Statement(
            sid="WriteEvents",
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[f"{group.arn}:log-stream:{site.account_id}_CloudTrail_*"],
        )
        policy = aws.IamRolePolicy(
            self, "LogGroupRolePolicy", name="write", role=role.id, policy=policy_document([write])
        )
        return _LogGroup(arn=f"{group.arn}:*", role_arn=role.arn, policies=(policy,))


def _data_events(props: AuditTrailProps) -> list[Any]:
    """Selectors of object-level events; without any a trail records management events, as with these."""
    objects = [f"{arn}/" for arn in props.data_bucket_arns] if props.settings.data_events else []
    if not objects:
        return []
    return [
        aws.CloudtrailEventSelector(
            read_write_type="All",
            include_management_events=True,
            data_resource=[aws.CloudtrailEventSelectorDataResource(type="AWS::S3::Object", values=objects)],
        )
    ]


def trail_name(site: Site) -> str:
    """Name of the stack's trail."""
    return site.named("trail")


def trail_arn(site: Site) -> str:
    """ARN of the trail by its name, for policies that the trail itself waits for."""
    return site.arn("cloudtrail", f"trail/{trail_name(site)}")


def _trail_statements(site: Site) -> list[Statement]:
    bucket, of_trail = bucket_arn(site, ARCHIVE), {"aws:SourceArn": trail_arn(site)}
    return [
        Statement(
            sid="CloudTrailLooks",
            actions=["s3:GetBucketAcl"],
            services=["cloudtrail.amazonaws.com"],
            resources=[bucket],
            conditions={"StringEquals": of_trail},
        ),
        Statement(
            sid="CloudTrailWrites",
            actions=["s3:PutObject"],
            services=["cloudtrail.amazonaws.com"],
            resources=[f"{bucket}/AWSLogs/{site.account_id}/*"],
            conditions={"StringEquals": {**of_trail, **_OWNED}},
        ),
    ]


def _delivery_statements(site: Site) -> list[Statement]:
    """The two statements of flow logs, under the ids by which AWS sees that it need not add its own."""
    bucket, of_account = bucket_arn(site, ARCHIVE), {"aws:SourceAccount": site.account_id}
    source = {"ArnLike": {"aws:SourceArn": site.arn("logs", "*")}}
    return [
        Statement(
            sid="AWSLogDeliveryAclCheck",
            actions=["s3:GetBucketAcl"],
            services=["delivery.logs.amazonaws.com"],
            resources=[bucket],
            conditions={"StringEquals": of_account, **source},
        ),
        Statement(
            sid="AWSLogDeliveryWrite",
            actions=["s3:PutObject"],
            services=["delivery.logs.amazonaws.com"],
            resources=[f"{bucket}/AWSLogs/{site.account_id}/*"],
            conditions={"StringEquals": {**of_account, **_OWNED}, **source},
        ),
    ]

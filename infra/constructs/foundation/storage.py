"""The buckets of a stack: models, and the access logs of everything that keeps one.

Knows neither what reads the models nor what writes the logs. Invariant: every upload and download of a model is logged
in a bucket that only log services write to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.constructs.foundation.bucket import ACCESS_LOG_PREFIX, SecureBucket, SecureBucketProps, bucket_arn
from infra.framework import Construct
from infra.policy import Statement
from infra.site import Site

MODELS = "models"
ACCESS_LOGS = "access-logs"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelBucketProps:
    """What the bucket of models is made from."""

    site: Site
    key_arn: str
    """Key of the domain data."""
    log_bucket: str | None
    """Bucket of the access log; null: none is kept."""
    noncurrent_days: int = 30
    """Days that an overwritten model can be brought back."""
    events: bool = False
    """Whether uploads are sent to EventBridge, for rules of one's own."""
    force_destroy: bool = False
    """Whether destroying the stack deletes the models in it."""


class ModelBucket(Construct):
    """Weights of targets and drafts, and what a service reads and writes beside them."""

    def __init__(self, scope: Any, id: str, props: ModelBucketProps) -> None:
        super().__init__(scope, id)
        exceptions = {"CKV_AWS_144": "models are copies of what was uploaded here, and are read in one region only"}
        if not props.events:
            exceptions["CKV2_AWS_62"] = "nothing waits for an upload: a deployment names the model that it serves"
        if props.log_bucket is None:
            exceptions["CKV_AWS_18"] = "no bucket for access logs is given; the trail records reads and writes"
        bucket = SecureBucket(
            self,
            "Models",
            SecureBucketProps(
                site=props.site,
                suffix=MODELS,
                key_arn=props.key_arn,
                log_bucket=props.log_bucket,
                noncurrent_days=props.noncurrent_days,
                events=props.events,
                force_destroy=props.force_destroy,
                exceptions=exceptions,
            ),
        )
        self.name: str = bucket.name
        """Token."""
        self.versioned_name: str = bucket.versioned_name
        """Token, known once the bucket keeps versions."""
        self.arn: str = bucket.arn
        """Token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessLogBucketProps:
    """What the bucket of access logs is made from."""

    site: Site
    expire_after_days: int = 365
    """Days that logs are kept."""
    load_balancers: bool = False
    """Whether load balancers of the account log here, below `alb/`."""
    cdn: bool = False
    """Whether CloudFront logs here; it writes by access control list."""
    force_destroy: bool = False
    """Whether destroying the stack deletes the logs."""


class AccessLogBucket(Construct):
    """Access logs of buckets (below `s3/`), load balancers (below `alb/`) and CloudFront."""

    def __init__(self, scope: Any, id: str, props: AccessLogBucketProps) -> None:
        super().__init__(scope, id)
        site = props.site
        arn = bucket_arn(site, ACCESS_LOGS)
        statements = [
            Statement(
                sid="S3AccessLogs",
                actions=["s3:PutObject"],
                services=["logging.s3.amazonaws.com"],
                resources=[f"{arn}/{ACCESS_LOG_PREFIX}*"],
                conditions={
                    "StringEquals": {"aws:SourceAccount": site.account_id},
                    "ArnLike": {"aws:SourceArn": f"arn:{site.partition}:s3:::{site.name}-*"},
                },
            )
        ]
        if props.load_balancers:
            statements.append(
                Statement(
                    sid="LoadBalancerLogs",
                    actions=["s3:PutObject"],
                    services=["logdelivery.elasticloadbalancing.amazonaws.com"],
                    resources=[f"{arn}/alb/AWSLogs/{site.account_id}/*"],
                    conditions={"ArnLike": {"aws:SourceArn": site.arn("elasticloadbalancing", "loadbalancer/*")}},
                )
            )
        bucket = SecureBucket(
            self,
            "AccessLogs",
            SecureBucketProps(
                site=site,
                suffix=ACCESS_LOGS,
                key_arn=None,
                statements=statements,
                expire_after_days=props.expire_after_days,
                acl_writers=props.cdn,
                force_destroy=props.force_destroy,
                exceptions={
                    "CKV_AWS_18": "it is the bucket of access logs: its own log would grow by being written",
                    "CKV_AWS_144": "access logs are kept in the region that they speak of",
                    "CKV_AWS_145": "S3 and load balancers deliver access logs to buckets with SSE-S3 only",
                    "CKV2_AWS_62": "nothing waits for a log file to arrive",
                },
            ),
        )
        self.name: str = bucket.name
        """Token."""
        self.arn: str = bucket.arn
        """Token."""
        self.domain_name: str = bucket.domain_name
        """Token; for CloudFront."""
        self.writable_name: str = bucket.writable_name
        """Token, known once log services are let in: for load balancers and CloudFront."""

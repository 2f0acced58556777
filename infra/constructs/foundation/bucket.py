"""A bucket as every bucket of the product is: the block that model, log, audit and state buckets are built from.

Knows not what it holds. Invariants: private, versioned, encrypted, reached only by TLS 1.2 or newer, and every upload
that was given up is cleaned away. Names are global in S3, so they carry the account; see `bucket_name`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from infra.checkov import skip
from infra.framework import Construct, Lifecycle, aws
from infra.policy import Statement, policy_document
from infra.site import Site

ABORT_UPLOADS_AFTER_DAYS = 7
# Where S3 puts the access logs of buckets, of all of them together: each line names its bucket.
ACCESS_LOG_PREFIX = "s3/"
_LONGEST_NAME = 63
_ACCOUNT_DIGITS = 12
_DENIED: Mapping[str, Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "DenyPlainHttp": {"Bool": {"aws:SecureTransport": "false"}},
        "DenyOldTls": {"NumericLessThan": {"s3:TlsVersion": "1.2"}},
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transition:
    """A move to colder storage."""

    after_days: int
    storage_class: Literal["STANDARD_IA", "GLACIER", "DEEP_ARCHIVE"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SecureBucketProps:
    """What a bucket is made from."""

    site: Site
    suffix: str
    """Last part of the name but the account, such as "models"."""
    key_arn: str | None
    """Key of the objects; null: S3's own key (SSE-S3), for writers that AWS lets use no other."""
    log_bucket: str | None = None
    """Bucket of the access log; null: none is kept, and `exceptions` says why."""
    statements: Sequence[Statement] = ()
    """Who else is let in, beside the account by IAM; ARNs from `bucket_arn`."""
    transitions: Sequence[Transition] = ()
    """Moves of current objects, in order."""
    expire_after_days: int | None = None
    """Days after which objects are deleted; null: never."""
    noncurrent_days: int = 30
    """Days that an overwritten or deleted object can be brought back."""
    events: bool = False
    """Whether changes are sent to EventBridge."""
    acl_writers: bool = False
    """Whether a service writes by access control list (CloudFront's standard log); else lists are off."""
    force_destroy: bool = False
    """Whether destroying the bucket deletes what is in it; else it must be empty."""
    protect: bool = False
    """Whether Terraform refuses to destroy it at all."""
    exceptions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """checkov's checks of the bucket that do not apply, with their reasons."""


class SecureBucket(Construct):
    """A bucket with all that belongs to it."""

    def __init__(self, scope: Any, id: str, props: SecureBucketProps) -> None:
        super().__init__(scope, id)
        bucket = aws.S3Bucket(
            self,
            "Bucket",
            bucket=bucket_name(props.site, props.suffix),
            force_destroy=props.force_destroy,
            lifecycle=Lifecycle(prevent_destroy=True) if props.protect else None,
        )
        for check, reason in props.exceptions.items():
            skip(bucket, check, reason)
        self._bucket = bucket
        self._close(props)
        self._encrypt(props)
        versioning = self._lifecycle(props)
        policy = self._policy(props)
        if props.log_bucket is not None:
            aws.S3BucketLoggingA(
                self,
                "AccessLog",
                bucket=bucket.id,
                target_bucket=props.log_bucket,
                target_prefix=ACCESS_LOG_PREFIX,
            )
        if props.events:
            aws.S3BucketNotification(self, "Events", bucket=bucket.id, eventbridge=True)

        self.name: str = bucket.id
        """Token."""
        self.arn: str = bucket.arn
        """Token."""
        self.versioned_name: str = versioning.bucket
        """The name again, known once it keeps versions: for whoever needs the version of what is put there."""
        self.domain_name: str = bucket.bucket_domain_name
        """Token; what CloudFront calls the bucket of its log."""
        self.writable_name: str = policy.bucket
        """The name again, known once the policy stands: for services that try to write when they are set up."""

    def _close(self, props: SecureBucketProps) -> None:
        block = aws.S3BucketPublicAccessBlock(
            self,
            "PublicAccessBlock",
            bucket=self._bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
        )
        ownership = aws.S3BucketOwnershipControls(
            self,
            "Ownership",
            bucket=self._bucket.id,
            rule={"object_ownership": "BucketOwnerPreferred" if props.acl_writers else "BucketOwnerEnforced"},
            # S3 answers two changes of one bucket's access at a time with a conflict.
            depends_on=[block],
        )
        if props.acl_writers:
            skip(ownership, "CKV2_AWS_65", "CloudFront's standard log is delivered by access control list only")
        self._closed = ownership

    def _encrypt(self, props: SecureBucketProps) -> None:
        by = (
            {"sse_algorithm": "AES256"}
            if props.key_arn is None
            else {"sse_algorithm": "aws:kms", "kms_master_key_id": props.key_arn}
        )
        aws.S3BucketServerSideEncryptionConfigurationA(
            self,
            "Encryption",
            bucket=self._bucket.id,
            rule=[
                aws.S3BucketServerSideEncryptionConfigurationRuleA(
                    apply_server_side_encryption_by_default=by,
                    # One data key a while instead of one an object: KMS is called, and billed, far less.
                    bucket_key_enabled=props.key_arn is not None,
                )
            ],
        )

    def _lifecycle(self, props: SecureBucketProps) -> Any:
        versioning = aws.S3BucketVersioningA(
            self, "Versioning", bucket=self._bucket.id, versioning_configuration={"status": "Enabled"}
        )
        rule = aws.S3BucketLifecycleConfigurationRule
        rules = [
            rule(
                id="clean-up",
                status="Enabled",
                filter=[aws.S3BucketLifecycleConfigurationRuleFilter(prefix="")],
                abort_incomplete_multipart_upload=[
                    aws.S3BucketLifecycleConfigurationRuleAbortIncompleteMultipartUpload(
                        days_after_initiation=ABORT_UPLOADS_AFTER_DAYS
                    )
                ],
                noncurrent_version_expiration=[
                    aws.S3BucketLifecycleConfigurationRuleNoncurrentVersionExpiration(
                        noncurrent_days=props.noncurrent_days
                    )
                ],
            )
        ]
        if props.transitions or props.expire_after_days is not None:
            moves = [
                aws.S3BucketLifecycleConfigurationRuleTransition(days=move.after_days, storage_class=move.storage_class)
                for move in props.transitions
            ]
            end = [aws.S3BucketLifecycleConfigurationRuleExpiration(days=props.expire_after_days)]
            rules.append(
                rule(
                    id="age",
                    status="Enabled",
                    filter=[aws.S3BucketLifecycleConfigurationRuleFilter(prefix="")],
                    transition=moves or None,
                    expiration=end if props.expire_after_days is not None else None,
                )
            )
        aws.S3BucketLifecycleConfiguration(
            self,
            "Lifecycle",
            bucket=self._bucket.id,
            rule=rules,
            # Rules for old versions are made for a bucket that has versions.
            depends_on=[versioning],
        )
        return versioning

    def _policy(self, props: SecureBucketProps) -> Any:
        arn = bucket_arn(props.site, props.suffix)
        denials = [
            Statement(
                sid=sid,
                effect="Deny",
                actions=["s3:*"],
                accounts=["*"],
                resources=[arn, f"{arn}/*"],
                conditions=conditions,
            )
            for sid, conditions in _DENIED.items()
        ]
        policy = policy_document([*denials, *props.statements])
        return aws.S3BucketPolicy(self, "Policy", bucket=self._bucket.id, policy=policy, depends_on=[self._closed])


def bucket_name(site: Site, suffix: str) -> str:
    """Name of a bucket: a stack's own, unique by the account. Stacks of one account need names of their own anyway."""
    name = site.named(suffix)
    assert len(name) + 1 + _ACCOUNT_DIGITS <= _LONGEST_NAME, f"too long for a bucket's name: {name}"
    return f"{name}-{site.account_id}"


def bucket_arn(site: Site, suffix: str) -> str:
    """ARN of a bucket by its name, for policies that must not refer to it."""
    return f"arn:{site.partition}:s3:::{bucket_name(site, suffix)}"

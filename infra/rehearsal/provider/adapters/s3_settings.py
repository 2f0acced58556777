"""Settings of a bucket that are resources of their own: each is put as a whole, when new and when changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Call, Made, call
from infra.rehearsal.provider.shapes import Exactly
from infra.rehearsal.provider.templates import State

_BLOCK = {
    "BlockPublicAcls": "{block_public_acls}",
    "IgnorePublicAcls": "{ignore_public_acls}",
    "BlockPublicPolicy": "{block_public_policy}",
    "RestrictPublicBuckets": "{restrict_public_buckets}",
}


def _rules(state: State) -> Exactly:
    """Lifecycle rules. A filter without conditions means every object, and must be written as an empty prefix."""
    return Exactly({"Rules": [_lifecycle_rule(rule) for rule in state["rule"]]})


def _lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = {"ID": rule["id"], "Status": rule["status"], "Filter": _filter(rule.get("filter") or [])}
    for name, member in (
        ("expiration", "Expiration"),
        ("noncurrent_version_expiration", "NoncurrentVersionExpiration"),
    ):
        for block in rule.get(name) or []:
            value[member] = _members(block)
    for block in rule.get("abort_incomplete_multipart_upload") or []:
        value["AbortIncompleteMultipartUpload"] = _members(block)
    for name, member in (
        ("transition", "Transitions"),
        ("noncurrent_version_transition", "NoncurrentVersionTransitions"),
    ):
        if rule.get(name):
            value[member] = [_members(block) for block in rule[name]]
    return value


def _filter(blocks: list[Mapping[str, Any]]) -> dict[str, Any]:
    block = blocks[0] if blocks else {}
    if block.get("and"):
        both = block["and"][0]
        tags = [{"Key": key, "Value": text} for key, text in (both.get("tags") or {}).items()]
        return {"And": {**_members({key: each for key, each in both.items() if key != "tags"}), "Tags": tags}}
    if block.get("tag"):
        return {"Tag": _members(block["tag"][0])}
    return _members(block) or {"Prefix": ""}


def _members(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block's own attributes under S3's names for them."""
    set_here = {name: value for name, value in block.items() if value not in (None, "", [], {})}
    return {_member(name): int(value) if isinstance(value, float) else value for name, value in set_here.items()}


def _member(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _destinations(state: State) -> Exactly:
    """Who is told of a bucket's events; EventBridge is told by an empty structure."""
    value: dict[str, Any] = {}
    for name, member, target, arn in (
        ("topic", "TopicConfigurations", "TopicArn", "topic_arn"),
        ("queue", "QueueConfigurations", "QueueArn", "queue_arn"),
        ("lambda_function", "LambdaFunctionConfigurations", "LambdaFunctionArn", "lambda_function_arn"),
    ):
        if state.get(name):
            value[member] = [{target: block[arn], "Events": sorted(block["events"])} for block in state[name]]
    if state.get("eventbridge"):
        value["EventBridgeConfiguration"] = {}
    return Exactly(value)


def _logging(state: State) -> Exactly:
    target = {"TargetBucket": state["target_bucket"], "TargetPrefix": state.get("target_prefix") or ""}
    return Exactly({"LoggingEnabled": target})


def _there(answer: Mapping[str, Any], state: State) -> bool:
    """EventBridge's empty structure looks like no notification at all: the bucket alone decides."""
    return True


def _setting(put: Call, *, read: Call, found: Any = "", delete: Call | None = None) -> Made:
    return Made(service="s3", create=put, id="{bucket}", read=read, found=found, update=[put], delete=delete)


RESOURCES = {
    "aws_s3_bucket_versioning": _setting(
        call("put_bucket_versioning", Bucket="{bucket}", VersioningConfiguration="{versioning_configuration}"),
        read=call("get_bucket_versioning", Bucket="{bucket}"),
        found="Status",
        delete=call("put_bucket_versioning", Bucket="{bucket}", VersioningConfiguration={"Status": "Suspended"}),
    ),
    "aws_s3_bucket_server_side_encryption_configuration": _setting(
        call("put_bucket_encryption", Bucket="{bucket}", ServerSideEncryptionConfiguration={"Rules": "{rule}"}),
        read=call("get_bucket_encryption", Bucket="{bucket}"),
        delete=call("delete_bucket_encryption", Bucket="{bucket}"),
    ),
    "aws_s3_bucket_public_access_block": _setting(
        call("put_public_access_block", Bucket="{bucket}", PublicAccessBlockConfiguration=_BLOCK),
        read=call("get_public_access_block", Bucket="{bucket}"),
        delete=call("delete_public_access_block", Bucket="{bucket}"),
    ),
    "aws_s3_bucket_ownership_controls": _setting(
        call("put_bucket_ownership_controls", Bucket="{bucket}", OwnershipControls={"Rules": "{rule}"}),
        read=call("get_bucket_ownership_controls", Bucket="{bucket}"),
        delete=call("delete_bucket_ownership_controls", Bucket="{bucket}"),
    ),
    "aws_s3_bucket_lifecycle_configuration": _setting(
        call("put_bucket_lifecycle_configuration", Bucket="{bucket}", LifecycleConfiguration=_rules),
        read=call("get_bucket_lifecycle_configuration", Bucket="{bucket}"),
        delete=call("delete_bucket_lifecycle", Bucket="{bucket}"),
    ),
    "aws_s3_bucket_policy": _setting(
        call("put_bucket_policy", Bucket="{bucket}", Policy="{policy}"),
        read=call("get_bucket_policy", Bucket="{bucket}"),
        delete=call("delete_bucket_policy", Bucket="{bucket}"),
    ),
    "aws_s3_bucket_logging": _setting(
        call("put_bucket_logging", Bucket="{bucket}", BucketLoggingStatus=_logging),
        read=call("get_bucket_logging", Bucket="{bucket}"),
        found="LoggingEnabled",
        delete=call("put_bucket_logging", Bucket="{bucket}", BucketLoggingStatus=Exactly({})),
    ),
    "aws_s3_bucket_notification": _setting(
        call("put_bucket_notification_configuration", Bucket="{bucket}", NotificationConfiguration=_destinations),
        read=call("get_bucket_notification_configuration", Bucket="{bucket}"),
        found=_there,
        delete=call("put_bucket_notification_configuration", Bucket="{bucket}", NotificationConfiguration=Exactly({})),
    ),
}

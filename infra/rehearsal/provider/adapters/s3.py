"""Buckets and objects."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from infra.rehearsal.provider.adapter import Made, call
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State


def _place(state: State) -> Any:
    """us-east-1 is the one region that must not be named."""
    region = state.get("region")
    return None if region in (None, "us-east-1") else {"LocationConstraint": region}


def _empty(cloud: Cloud, state: State) -> None:
    """Remove what is left in a bucket whose configuration allows it."""
    if state.get("force_destroy"):
        for version in _versions(cloud, {"Bucket": state["bucket"]}):
            cloud.call("s3", "delete_object", {"Bucket": state["bucket"], **version})


def _remove_versions(cloud: Cloud, state: State) -> None:
    bucket, key = state["bucket"], state["key"]
    for version in _versions(cloud, {"Bucket": bucket, "Prefix": key}):
        if version["Key"] == key:
            cloud.call("s3", "delete_object", {"Bucket": bucket, **version})


def _versions(cloud: Cloud, request: Mapping[str, Any]) -> list[dict[str, str]]:
    answer = cloud.call("s3", "list_object_versions", request)
    found = [*answer.get("Versions", []), *answer.get("DeleteMarkers", [])]
    return [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]


def _body(state: State) -> bytes:
    if state.get("content") is not None:
        return str(state["content"]).encode()
    if state.get("content_base64") is not None:
        return base64.b64decode(state["content_base64"])
    return Path(state["source"]).read_bytes() if state.get("source") else b""


def _etag(cloud: Cloud, state: State) -> str:
    """The sum that S3 answers in quotes."""
    answer = cloud.call("s3", "head_object", {"Bucket": state["bucket"], "Key": state["key"]})
    return str(answer["ETag"]).strip('"')


RESOURCES = {
    "aws_s3_bucket": Made(
        service="s3",
        create=call(
            "create_bucket",
            Bucket="{bucket}",
            CreateBucketConfiguration=_place,
            ObjectLockEnabledForBucket="{object_lock_enabled}",
        ),
        id="{bucket}",
        more=[call("put_bucket_tagging", Bucket="{id}", Tagging={"TagSet": "{tags_all}"}, when=["tags_all"])],
        read=call("get_bucket_location", Bucket="{id}"),
        outputs={
            "arn": "arn:{partition}:s3:::{id}",
            "bucket_domain_name": "{id}.s3.{dns_suffix}",
            "bucket_regional_domain_name": "{id}.s3.{region}.{dns_suffix}",
            "bucket_region": "{region}",
        },
        update=[call("put_bucket_tagging", Bucket="{id}", Tagging={"TagSet": "{tags_all}"}, when=["tags_all"])],
        before_delete=_empty,
        delete=call("delete_bucket", Bucket="{id}"),
    ),
    "aws_s3_object": Made(
        service="s3",
        create=call(
            "put_object",
            Bucket="{bucket}",
            Key="{key}",
            Body=_body,
            ContentType="{content_type}",
            CacheControl="{cache_control}",
            ContentEncoding="{content_encoding}",
            Metadata="{metadata}",
            ServerSideEncryption="{server_side_encryption}",
            SSEKMSKeyId="{kms_key_id}",
            StorageClass="{storage_class}",
            Tagging=lambda state: urlencode(state.get("tags_all") or {}) or None,
        ),
        id="{bucket}/{key}",
        read=call("head_object", Bucket="{bucket}", Key="{key}"),
        outputs={
            "arn": "arn:{partition}:s3:::{bucket}/{key}",
            "etag": _etag,
            "version_id": "VersionId || ''",
            "server_side_encryption": "ServerSideEncryption",
            "kms_key_id": "SSEKMSKeyId",
        },
        update=[
            call(
                "put_object",
                Bucket="{bucket}",
                Key="{key}",
                Body=_body,
                ContentType="{content_type}",
                Metadata="{metadata}",
                ServerSideEncryption="{server_side_encryption}",
                SSEKMSKeyId="{kms_key_id}",
                Tagging=lambda state: urlencode(state.get("tags_all") or {}) or None,
            )
        ],
        before_delete=_remove_versions,
        volatile=frozenset({"etag", "version_id"}),
    ),
}

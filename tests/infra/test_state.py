"""The bucket of Terraform's state."""

from __future__ import annotations

from infra.constructs.foundation.state import StateBucket, StateBucketProps
from infra_doubles import SITE, synthesize


def state(**props):
    props = {"site": SITE, "key_arn": "arn:aws:kms:us-east-1:123456789012:key/k"} | props
    return synthesize(lambda scope: StateBucket(scope, "State", StateBucketProps(**props)))


def test_state_is_not_destroyed():
    """Terraform refuses to destroy the bucket, and it is never emptied; only a rehearsal says otherwise."""
    bucket = state().only("aws_s3_bucket")
    assert bucket["lifecycle"] == {"prevent_destroy": True}
    assert bucket["force_destroy"] is False
    assert "lifecycle" not in state(protect=False).only("aws_s3_bucket").values


def test_older_states_can_be_brought_back():
    """Every state that was written is a version, for ninety days; current states never expire."""
    stack = state()
    assert stack.only("aws_s3_bucket_versioning")["versioning_configuration"] == {"status": "Enabled"}
    [rule] = stack.only("aws_s3_bucket_lifecycle_configuration")["rule"]
    assert rule["noncurrent_version_expiration"] == [{"noncurrent_days": 90}]
    assert "expiration" not in rule


def test_state_is_encrypted_and_private():
    """States hold secrets: their own key, no public access, TLS only."""
    stack = state()
    [rule] = stack.only("aws_s3_bucket_server_side_encryption_configuration")["rule"]
    assert rule["apply_server_side_encryption_by_default"]["kms_master_key_id"].endswith("key/k")
    assert stack.only("aws_s3_bucket_public_access_block")["restrict_public_buckets"] is True
    statements = stack.only("aws_s3_bucket_policy").policy()
    assert {statement["Effect"] for statement in statements} == {"Deny"}


def test_locks_can_be_written_and_removed():
    """A lock is an object beside the state: nothing keeps objects from being deleted, and there is no table."""
    stack = state()
    assert stack.only("aws_s3_bucket").get("object_lock_enabled") is None
    assert stack.all("aws_dynamodb_table") == []


def test_access_log_is_a_choice():
    """With a bucket for access logs the state's is logged; without, the exception says why."""
    logged = state(log_bucket="logs")
    assert logged.only("aws_s3_bucket_logging")["target_bucket"] == "logs"
    assert "CKV_AWS_18" not in logged.only("aws_s3_bucket")["//"]["checkov"]
    assert "CKV_AWS_18" in state().only("aws_s3_bucket")["//"]["checkov"]

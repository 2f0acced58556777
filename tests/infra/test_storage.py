"""Buckets: private, versioned, encrypted, TLS 1.2 and newer, logged."""

from __future__ import annotations

import pytest

from foundation_doubles import default, everything
from infra.constructs.foundation.bucket import bucket_name
from infra.constructs.foundation.storage import AccessLogBucket, AccessLogBucketProps, ModelBucket, ModelBucketProps
from infra.site import Site
from infra_doubles import SITE, synthesize

LOGS, MODELS = bucket_name(SITE, "access-logs"), bucket_name(SITE, "models")


def of(stack, kind, bucket):
    """The resource of a kind that belongs to a bucket."""
    [found] = [one for one in stack.all(kind) if stack.follow(one["bucket"]).id == bucket.id]
    return found


def named(stack, name):
    [found] = [one for one in stack.all("aws_s3_bucket") if one["bucket"] == name]
    return found


def models(**props):
    props = {"site": SITE, "key_arn": "arn:key", "log_bucket": None} | props
    return synthesize(lambda scope: ModelBucket(scope, "Models", ModelBucketProps(**props)))


@pytest.fixture(params=["default", "everything"])
def stack(request):
    return {"default": default, "everything": everything}[request.param]()


def test_nothing_is_public(stack):
    """Every bucket blocks public access in all four ways."""
    for bucket in stack.all("aws_s3_bucket"):
        block = of(stack, "aws_s3_bucket_public_access_block", bucket)
        names = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
        assert all(block[name] is True for name in names)


def test_everything_is_versioned(stack):
    """Every bucket keeps versions, and forgets the old ones and uploads that were given up."""
    for bucket in stack.all("aws_s3_bucket"):
        status = of(stack, "aws_s3_bucket_versioning", bucket)["versioning_configuration"]["status"]
        assert status == "Enabled"
        [clean] = [
            rule
            for rule in of(stack, "aws_s3_bucket_lifecycle_configuration", bucket)["rule"]
            if rule["id"] == "clean-up"
        ]
        assert clean["status"] == "Enabled"
        assert clean["abort_incomplete_multipart_upload"] == [{"days_after_initiation": 7}]
        assert clean["noncurrent_version_expiration"][0]["noncurrent_days"] > 0


def test_old_tls_is_refused(stack):
    """Plain HTTP and TLS before 1.2 are denied to everybody, for the bucket and all in it."""
    for bucket in stack.all("aws_s3_bucket"):
        statements = {one["Sid"]: one for one in of(stack, "aws_s3_bucket_policy", bucket).policy()}
        plain, old = statements["DenyPlainHttp"], statements["DenyOldTls"]
        assert plain["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert old["Condition"] == {"NumericLessThan": {"s3:TlsVersion": "1.2"}}
        arn = f"arn:aws:s3:::{bucket['bucket']}"
        for denial in (plain, old):
            assert (denial["Effect"], denial["Principal"]) == ("Deny", {"AWS": "*"})
            assert denial["Resource"] == [arn, f"{arn}/*"]


def test_policies_let_in_services_only(stack):
    """No bucket policy allows anything to a principal that is no service with a condition on this account."""
    for policy in stack.all("aws_s3_bucket_policy"):
        for statement in policy.policy():
            if statement["Effect"] == "Allow":
                assert set(statement["Principal"]) == {"Service"}
                assert SITE.account_id in str(statement["Condition"])


def test_objects_are_encrypted_by_the_key(stack):
    """Models and records are encrypted by a key of ours, with a bucket key; only access logs by S3's."""
    for bucket in stack.all("aws_s3_bucket"):
        [rule] = of(stack, "aws_s3_bucket_server_side_encryption_configuration", bucket)["rule"]
        default_by = rule["apply_server_side_encryption_by_default"]
        if bucket["bucket"] == LOGS:
            assert default_by == {"sse_algorithm": "AES256"}
        else:
            assert default_by["sse_algorithm"] == "aws:kms"
            assert stack.follow(default_by["kms_master_key_id"]).kind == "aws_kms_key"
            assert rule["bucket_key_enabled"] is True


def test_access_is_logged(stack):
    """Bucket → access log → policy that lets S3 write below the very prefix."""
    logs = named(stack, LOGS)
    logged = {stack.follow(one["bucket"]).id: one for one in stack.all("aws_s3_bucket_logging")}
    assert set(logged) == {bucket.id for bucket in stack.all("aws_s3_bucket")} - {logs.id}
    for bucket_id, log in logged.items():
        policy = stack.follow(log["target_bucket"])
        assert policy.kind == "aws_s3_bucket_policy"
        assert stack.follow(policy["bucket"]).id == logs.id
        [write] = [one for one in policy.policy() if one["Sid"] == "S3AccessLogs"]
        assert write["Principal"] == {"Service": "logging.s3.amazonaws.com"}
        assert write["Resource"] == f"arn:aws:s3:::{LOGS}/{log['target_prefix']}*"
        [source] = [one["bucket"] for one in stack.all("aws_s3_bucket") if one.id == bucket_id]
        assert f"arn:aws:s3:::{source}".startswith(write["Condition"]["ArnLike"]["aws:SourceArn"].removesuffix("*"))


def test_access_logs_end():
    """Access logs are deleted when the setting says."""
    props = AccessLogBucketProps(site=SITE, expire_after_days=99)
    stack = synthesize(lambda scope: AccessLogBucket(scope, "Logs", props))
    rules = stack.only("aws_s3_bucket_lifecycle_configuration")["rule"]
    [age] = [rule for rule in rules if rule["id"] == "age"]
    assert age["expiration"] == [{"days": 99}]


def test_edge_logs():
    """Load balancers write below alb/ and CloudFront by access control list, only where there is an edge."""
    with_edge, without = everything(), default()
    bucket = named(with_edge, LOGS)
    [write] = [
        one for one in of(with_edge, "aws_s3_bucket_policy", bucket).policy() if one["Sid"] == "LoadBalancerLogs"
    ]
    assert write["Principal"] == {"Service": "logdelivery.elasticloadbalancing.amazonaws.com"}
    assert write["Resource"] == f"arn:aws:s3:::{LOGS}/alb/AWSLogs/{SITE.account_id}/*"
    ownership = of(with_edge, "aws_s3_bucket_ownership_controls", bucket)
    assert ownership["rule"] == {"object_ownership": "BucketOwnerPreferred"}
    assert "CKV2_AWS_65" in ownership["//"]["checkov"]
    plain = of(without, "aws_s3_bucket_ownership_controls", named(without, LOGS))
    assert plain["rule"] == {"object_ownership": "BucketOwnerEnforced"}
    assert "logdelivery" not in of(without, "aws_s3_bucket_policy", named(without, LOGS))["policy"]


def test_control_lists_are_off():
    """Objects belong to the bucket's owner, without access control lists, where no service needs them."""
    stack = everything()
    for bucket in stack.all("aws_s3_bucket"):
        if bucket["bucket"] != LOGS:
            rule = of(stack, "aws_s3_bucket_ownership_controls", bucket)["rule"]
            assert rule == {"object_ownership": "BucketOwnerEnforced"}


def test_destroying_keeps_models_unless_told():
    """A bucket that holds something is not destroyed; a setting says otherwise."""
    assert models().only("aws_s3_bucket")["force_destroy"] is False
    assert models(force_destroy=True).only("aws_s3_bucket")["force_destroy"] is True


def test_uploads_are_told_where_asked():
    """Uploads go to EventBridge where a rule waits for them; else the exception says why not."""
    assert models(events=True).only("aws_s3_bucket_notification")["eventbridge"] is True
    assert "CKV2_AWS_62" not in models(events=True).only("aws_s3_bucket")["//"]["checkov"]
    assert models().all("aws_s3_bucket_notification") == []
    assert "CKV2_AWS_62" in models().only("aws_s3_bucket")["//"]["checkov"]


def test_names_fit():
    """The longest name of a stack still gives names of buckets that S3 takes: 63 characters."""
    site = Site(name="e" * 32, region="us-east-1", partition="aws", account_id="1" * 12, zones=("a", "b"))
    assert len(bucket_name(site, "access-logs")) <= 63
    with pytest.raises(AssertionError, match="too long"):
        bucket_name(site, "a-very-long-suffix")

"""Trail and archive: complete, encrypted, kept and cold."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from pydantic import ValidationError

from foundation_doubles import default, everything, foundation
from infra.settings.audit import AuditSettings
from infra.settings.network import NetworkSettings
from infra_doubles import SITE, synthesize

TRAIL_ARN = f"arn:aws:cloudtrail:{SITE.region}:{SITE.account_id}:trail/{SITE.name}-trail"


def archive_rules(**settings):
    stack = synthesize(lambda scope: foundation(scope, NetworkSettings(), AuditSettings(**settings)))
    [bucket] = [one for one in stack.all("aws_s3_bucket") if "-audit-" in one["bucket"]]
    [found] = [
        one for one in stack.all("aws_s3_bucket_lifecycle_configuration") if stack.follow(one["bucket"]).id == bucket.id
    ]
    return {rule["id"]: rule for rule in found["rule"]}


def test_trail_sees_everything():
    """The trail covers all regions and global services, and each of its files can be proven unchanged."""
    trail = default().only("aws_cloudtrail")
    for name in (
        "is_multi_region_trail",
        "include_global_service_events",
        "enable_log_file_validation",
        "enable_logging",
    ):
        assert trail[name] is True
    assert TRAIL_ARN.endswith(f"/{trail['name']}")


def test_data_events_are_those_of_the_models():
    """Reads and writes are recorded for the bucket of models and no other, since each event is billed."""
    stack = default()
    [selector] = stack.only("aws_cloudtrail")["event_selector"]
    [resource] = selector["data_resource"]
    assert resource["type"] == "AWS::S3::Object"
    [value] = resource["values"]
    assert value.endswith("/")
    assert "-models-" in stack.follow(value)["bucket"]
    assert selector["include_management_events"] is True


def test_without_data_events():
    """Without data events the trail has no selector: management events are its own default."""
    stack = synthesize(lambda scope: foundation(scope, NetworkSettings(), AuditSettings(data_events=False)))
    assert "event_selector" not in stack.only("aws_cloudtrail").values


def test_without_a_trail_the_archive_stays():
    """An organization's own trail makes ours superfluous; flow logs still need the archive."""
    stack = synthesize(lambda scope: foundation(scope, NetworkSettings(), AuditSettings(cloudtrail=False)))
    assert stack.all("aws_cloudtrail") == []
    assert stack.all("aws_sns_topic") == []
    assert stack.follow(stack.only("aws_flow_log")["log_destination"]).kind == "aws_s3_bucket_policy"


def test_trail_writes_to_the_archive():
    """Trail → bucket's policy → bucket: CloudTrail is let in for this trail, before the trail is made."""
    stack = default()
    policy = stack.follow(stack.only("aws_cloudtrail")["s3_bucket_name"])
    assert policy.kind == "aws_s3_bucket_policy"
    assert "-audit-" in stack.follow(policy["bucket"])["bucket"]
    statements = {one["Sid"]: one for one in policy.policy()}
    for sid, action in (("CloudTrailLooks", "s3:GetBucketAcl"), ("CloudTrailWrites", "s3:PutObject")):
        assert statements[sid]["Action"] == [action]
        assert statements[sid]["Principal"] == {"Service": "cloudtrail.amazonaws.com"}
        assert statements[sid]["Condition"]["StringEquals"]["aws:SourceArn"] == TRAIL_ARN
    assert f"/AWSLogs/{SITE.account_id}/*" in statements["CloudTrailWrites"]["Resource"]


def test_trail_may_use_its_key():
    """Trail → key → policy: CloudTrail encrypts for this trail, by its encryption context."""
    stack = default()
    key = stack.follow(stack.only("aws_cloudtrail")["kms_key_id"])
    statements = {one["Sid"]: one for one in key.policy()}
    encrypts = statements["CloudTrailEncrypts"]
    assert encrypts["Principal"] == {"Service": "cloudtrail.amazonaws.com"}
    assert encrypts["Action"] == ["kms:GenerateDataKey*"]
    assert fnmatchcase(TRAIL_ARN, encrypts["Condition"]["ArnLike"]["aws:SourceArn"])
    context = encrypts["Condition"]["StringLike"]["kms:EncryptionContext:aws:cloudtrail:arn"]
    assert fnmatchcase(TRAIL_ARN, context)
    assert statements["CloudTrailLooks"]["Action"] == ["kms:DescribeKey"]


def test_trail_tells_of_new_files():
    """Trail → topic → policy and key: CloudTrail may publish, and is let in before the trail is made."""
    stack = default()
    trail = stack.only("aws_cloudtrail")
    topic = stack.follow(trail["sns_topic_name"])
    [policy] = [one for one in stack.all("aws_sns_topic_policy") if stack.follow(one["arn"]).id == topic.id]
    [publish] = policy.policy()
    assert publish["Principal"] == {"Service": "cloudtrail.amazonaws.com"}
    assert publish["Condition"] == {"StringEquals": {"aws:SourceArn": TRAIL_ARN}}
    assert f"{policy.kind}.{policy.id}" in trail["depends_on"]
    [use] = [one for one in stack.follow(topic["kms_master_key_id"]).policy() if one["Sid"] == "Publishers"]
    assert "cloudtrail.amazonaws.com" in use["Principal"]["Service"]


def test_log_group_is_a_choice():
    """D26: trail → log group → key whose pattern has its name; trail → role → policy on that group."""
    assert default().all("aws_cloudwatch_log_group") == []
    assert "CKV2_AWS_10" in default().only("aws_cloudtrail")["//"]["checkov"]
    stack = everything()
    trail = stack.only("aws_cloudtrail")
    assert "checkov" not in trail.get("//", {})
    group = stack.follow(trail["cloud_watch_logs_group_arn"])
    assert trail["cloud_watch_logs_group_arn"].endswith(":*")
    [use] = [one for one in stack.follow(group["kms_key_id"]).policy() if one["Sid"] == "LogGroups"]
    pattern = use["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    assert fnmatchcase(SITE.arn("logs", f"log-group:{group['name']}"), pattern)
    role = stack.follow(trail["cloud_watch_logs_role_arn"])
    [trust] = role.policy("assume_role_policy")
    assert trust["Principal"] == {"Service": "cloudtrail.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceArn": TRAIL_ARN}}
    [policy] = [one for one in stack.all("aws_iam_role_policy") if stack.follow(one["role"]).id == role.id]
    [write] = policy.policy()
    assert stack.follow(write["Resource"]).id == group.id


def test_records_grow_cold_and_end():
    """Records move to Glacier, then to Deep Archive, and are deleted after seven years."""
    age = archive_rules()["age"]
    assert age["transition"] == [
        {"days": 90, "storage_class": "GLACIER"},
        {"days": 365, "storage_class": "DEEP_ARCHIVE"},
    ]
    assert age["expiration"] == [{"days": 2557}]


def test_deep_archive_is_a_choice():
    """Without Deep Archive records stay in Glacier, from which they are back in hours."""
    [move] = archive_rules(deep_archive_after_days=None)["age"]["transition"]
    assert move["storage_class"] == "GLACIER"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"archive_after_days": 90, "deep_archive_after_days": 179}, "must be at least 180"),
        ({"archive_after_days": 300, "deep_archive_after_days": None, "retention_days": 365}, "must be at least 390"),
        ({"deep_archive_after_days": 365, "retention_days": 500}, "must be at least 545"),
    ],
)
def test_moves_that_cost_more_than_they_save(settings, message):
    """Records that leave a storage class before its shortest billed time are refused."""
    with pytest.raises(ValidationError, match=message):
        AuditSettings(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"archive_after_days": 90, "deep_archive_after_days": 180, "retention_days": 365},
        {"archive_after_days": 275, "deep_archive_after_days": None, "retention_days": 365},
    ],
)
def test_shortest_times(settings):
    """The shortest times that are billed are allowed."""
    AuditSettings(**settings)

"""The real Terraform with the stand-in provider against a local AWS: it refuses, makes, finds, changes and removes."""

from __future__ import annotations

import pytest

from standin_doubles import TERRAFORM, Workplace, client, local_aws, workplace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TERRAFORM is None, reason="terraform is not installed"),
]


@pytest.fixture
def place(tmp_path):
    with local_aws() as endpoint:
        made = workplace(tmp_path, endpoint)
        yield made


def stack(*, retention_s: int = 300, queue: str = "eagle3-q") -> dict:
    """A key, a queue encrypted by it, a bucket with settings, and a type that the local AWS does not have."""
    return {
        "aws_kms_key": {"key": {"description": "data", "enable_key_rotation": True}},
        "aws_sqs_queue": {
            "queue": {
                "name": queue,
                "message_retention_seconds": retention_s,
                "kms_master_key_id": "${aws_kms_key.key.arn}",
            }
        },
        "aws_s3_bucket": {"bucket": {"bucket_prefix": "eagle3-", "tags": {"use": "models"}}},
        "aws_s3_bucket_versioning": {
            "bucket": {
                "bucket": "${aws_s3_bucket.bucket.id}",
                "versioning_configuration": {"status": "Enabled"},
            }
        },
        "aws_xray_group": {"group": {"group_name": "g", "filter_expression": "duration > 1"}},
    }


OUTPUT = {"output": {"queue": {"value": "${aws_sqs_queue.queue.arn}"}}}
DATA = {"data": {"aws_caller_identity": {"me": {}}}}


def refusal(place: Workplace, resources: dict) -> str:
    """What `validate` says of resources that it refuses."""
    place.write(resources)
    return " ".join(place.run("validate", expect=1).replace("│", " ").split())


def test_validate_accepts_and_refuses(place):
    """What the real schema takes is valid; unknown attributes, wrong types and missing ones are named, as in AWS's."""
    place.write(stack(), **OUTPUT, **DATA)
    place.run("init")
    assert "valid" in place.run("validate")
    unknown = refusal(place, {"aws_kms_key": {"key": {"descripton": "x"}}})
    assert "aws_kms_key.key" in unknown
    assert "descripton" in unknown
    missing = refusal(place, {"aws_iam_role": {"role": {"name": "r"}}})
    assert 'argument "assume_role_policy" is required' in missing
    assert "aws_iam_role.role" in missing
    block = refusal(place, {"aws_s3_bucket_versioning": {"v": {"bucket": "b"}}})
    assert "versioning_configuration" in block
    wrong = refusal(place, {"aws_sqs_queue": {"q": {"delay_seconds": "soon"}}})
    assert "a number is required" in wrong
    both = refusal(place, {"aws_sqs_queue": {"q": {"name": "a", "name_prefix": "b"}}})
    assert "exclude each other" in both


def test_life_of_a_stack(place):
    """Applied once, a stack needs no change; it changes in place or is replaced; destroyed, nothing is left of it."""
    place.write(stack(), **OUTPUT, **DATA)
    place.run("init")
    assert "5 added, 0 changed, 0 destroyed" in place.run("apply", "-auto-approve")
    sqs, s3, kms = (client(service, place.endpoint) for service in ("sqs", "s3", "kms"))
    [url] = sqs.list_queues()["QueueUrls"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert kms.describe_key(KeyId=attributes["KmsMasterKeyId"])["KeyMetadata"]["Description"] == "data"
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"project": "eagle3"}
    [bucket] = [each["Name"] for each in s3.list_buckets()["Buckets"]]
    assert bucket.startswith("eagle3-")
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert place.run("output", "-raw", "queue") == attributes["QueueArn"]
    place.run("plan", "-detailed-exitcode")

    place.write(stack(retention_s=600), **OUTPUT, **DATA)
    assert "1 changed, 0 destroyed" in place.run("apply", "-auto-approve")
    changed = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["MessageRetentionPeriod"])["Attributes"]
    assert changed == {"MessageRetentionPeriod": "600"}

    place.write(stack(retention_s=600, queue="eagle3-other"), **OUTPUT, **DATA)
    assert "1 added, 0 changed, 1 destroyed" in place.run("apply", "-auto-approve")
    [other] = sqs.list_queues()["QueueUrls"]
    assert other.endswith("/eagle3-other")

    recorded = {entry.type: entry.reason for entry in place.report() if entry.where == "state"}
    assert recorded.keys() == {"aws_xray_group"}
    place.run("destroy", "-auto-approve")
    assert "QueueUrls" not in sqs.list_queues()
    assert s3.list_buckets()["Buckets"] == []
    states = [kms.describe_key(KeyId=each["KeyId"])["KeyMetadata"]["KeyState"] for each in kms.list_keys()["Keys"]]
    assert states == ["PendingDeletion"]
    assert {entry.action for entry in place.report()} == {"create", "update", "delete"}


def test_drift_and_failure_are_shown(place):
    """A bucket deleted behind Terraform's back is planned anew; an error of the local AWS names the resource."""
    place.write({"aws_s3_bucket": {"bucket": {"bucket": "eagle3-drift"}}})
    place.run("init")
    place.run("apply", "-auto-approve")
    client("s3", place.endpoint).delete_bucket(Bucket="eagle3-drift")
    assert "aws_s3_bucket.bucket will be created" in place.run("plan", "-detailed-exitcode", expect=2)
    place.write({"aws_kms_alias": {"alias": {"name": "alias/x", "target_key_id": "nothing"}}})
    failure = place.run("apply", "-auto-approve", expect=1)
    assert "aws_kms_alias.alias" in failure
    assert "NotFoundException" in failure

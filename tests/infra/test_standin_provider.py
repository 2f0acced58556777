"""How the stand-in provider talks to the local AWS: requests out of blocks, templates, errors, one adapter for real."""

from __future__ import annotations

import botocore.session
import pytest
from botocore.exceptions import ClientError

from eagle3.errors import ConfigError
from infra.rehearsal.provider.adapter import Made, PartlyMadeError, Recorded, call
from infra.rehearsal.provider.changes import MADE, RECORDED, Changes
from infra.rehearsal.provider.cloud import cloud_at, is_missing, is_unimplemented
from infra.rehearsal.provider.connecting import connected
from infra.rehearsal.provider.registry import Registry, collect
from infra.rehearsal.provider.report import Report, read_report
from infra.rehearsal.provider.running import MadeAdapter
from infra.rehearsal.provider.schema import Attribute, Block
from infra.rehearsal.provider.shapes import convert, snake, structure
from infra.rehearsal.provider.templates import fill_templates
from infra.rehearsal.provider.wire import UNKNOWN
from standin_doubles import client, local_aws


def refused(code, message="", status=400):
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Op")


def shape(service, name):
    return botocore.session.get_session().get_service_model(service).shape_for(name)


def test_requests_are_filled_by_name():
    """A structure takes attributes of the same name, blocks fill structures, and tags take the form of the service."""
    state = {
        "name": "q",
        "kms_key_id": "k",
        "is_multi_region_trail": True,
        "tags_all": {"a": "b"},
        "s3_bucket_name": "",
    }
    request = structure(shape("cloudtrail", "CreateTrailRequest"), state)
    expected = {"Name": "q", "KmsKeyId": "k", "IsMultiRegionTrail": True, "TagsList": [{"Key": "a", "Value": "b"}]}
    assert request == expected
    block = [{"apply_server_side_encryption_by_default": [{"sse_algorithm": "aws:kms"}], "bucket_key_enabled": True}]
    converted = convert(shape("s3", "ServerSideEncryptionRules"), block)
    assert converted == [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}, "BucketKeyEnabled": True}]
    assert snake("IPSetForwardedIPConfig") == "ip_set_forwarded_ip_config"


def test_templates():
    """One field keeps its type, text around fields is filled, and a field without a value empties the whole."""
    state = {"id": "i", "net": [{"ids": ["a"]}], "on": True}
    assert fill_templates("{net.0.ids}", state) == ["a"]
    assert fill_templates("x/{id}/{on}", state) == "x/i/true"
    assert fill_templates({"A": "{id}", "B": "{gone}"}, state) == {"A": "i"}
    assert fill_templates("x/{gone}", state) is None


def test_no_account_can_be_reached():
    """Without the URL of a local AWS, or with a host of AWS, nothing is done."""
    for url in (None, "", "localhost", "https://sqs.us-east-1.amazonaws.com"):
        with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL"):
            cloud_at(url, "us-east-1")
    assert cloud_at("http://127.0.0.1:5000", "cn-north-1").partition == "aws-cn"
    with pytest.raises(ConfigError, match="region"):
        connected({}, {})


def test_errors_are_told_apart():
    """Gone, not implemented and refused are three things."""
    assert is_missing(refused("NoSuchBucket"))
    assert is_missing(refused("ValidationException", 'Could not find endpoint "x"'))
    assert not is_missing(refused("ValidationException", "1 validation error"))
    assert is_unimplemented(refused("501", "The x action has not been implemented"))
    assert not is_unimplemented(refused("AccessDenied"))
    assert not is_missing(refused("UnknownOperationException"))


@pytest.fixture(scope="module")
def aws():
    with local_aws() as endpoint:
        yield endpoint


def changes(endpoint, tmp_path, **resources):
    report = Report(tmp_path / "report")
    return Changes(
        cloud=cloud_at(endpoint, "us-east-1"), registry=Registry(resources=resources, data={}), report=report
    )


QUEUE = Block(
    attributes={
        "id": Attribute(type="string", optional=True, computed=True),
        "name": Attribute(type="string", optional=True),
        "region": Attribute(type="string", optional=True, computed=True),
        "arn": Attribute(type="string", computed=True),
    }
)


def test_resource_is_made_found_lost_and_removed(aws, tmp_path):
    """A queue is there after create and gone when deleted behind Terraform's back; every change is noted."""
    run = changes(aws, tmp_path, aws_sqs_queue=collect().resources["aws_sqs_queue"])
    outcome = run.create("aws_sqs_queue", QUEUE, {"id": UNKNOWN, "name": "q1", "arn": UNKNOWN})
    assert outcome.mark == MADE
    assert outcome.state["arn"] == "arn:aws:sqs:us-east-1:123456789012:q1"
    assert run.find("aws_sqs_queue", outcome.state, outcome.mark) == outcome.state
    client("sqs", aws).delete_queue(QueueUrl=outcome.state["id"])
    assert run.find("aws_sqs_queue", outcome.state, outcome.mark) is None
    assert run.delete("aws_sqs_queue", outcome.state, outcome.mark).error is None
    assert [entry.action for entry in read_report(tmp_path / "report")] == ["create", "gone", "delete"]


def test_unserved_type_is_recorded_with_the_reason(aws, tmp_path):
    """What no adapter makes is in the state only, says why, and has an id and an ARN to refer to."""
    run = changes(aws, tmp_path, aws_odd_thing=Recorded(reason="there is none", id="odd-{token}"))
    outcome = run.create("aws_odd_thing", QUEUE, {"id": UNKNOWN, "name": "a", "arn": UNKNOWN})
    assert outcome.mark == RECORDED
    assert outcome.state["id"].startswith("odd-")
    assert outcome.state["arn"] == f"arn:aws:odd:us-east-1:123456789012:thing/{outcome.state['id']}"
    [entry] = read_report(tmp_path / "report")
    assert (entry.where, entry.reason) == ("state", "there is none")
    assert run.find("aws_odd_thing", outcome.state, RECORDED) == outcome.state
    assert run.create("aws_else", QUEUE, {"id": UNKNOWN, "name": "a", "arn": UNKNOWN}).mark == RECORDED


def test_failed_step_does_not_lose_what_was_made(aws):
    """If a step after create fails, the error carries the id, so that Terraform can remove it."""
    steps = [call("tag_queue", QueueUrl="http://127.0.0.1/123456789012/other", Tags={"a": "b"})]
    adapter = MadeAdapter(
        Made(service="sqs", create=call("create_queue", QueueName="{name}"), id="QueueUrl", more=steps)
    )
    with pytest.raises(PartlyMadeError) as caught:
        adapter.create(cloud_at(aws, "us-east-1"), {"name": "half"})
    assert caught.value.outputs["id"].endswith("/half")


def test_attribute_that_no_call_changes_is_admitted():
    """A change that the adapter does not bring to the local AWS is told as such; tags are not."""
    entry = Made(
        service="sqs", create=call("x"), id="{name}", update=[call("set_queue_attributes", when=["size"])]
    )  # fmt: skip
    assert MadeAdapter(entry).uncovered(frozenset({"size", "tags_all", "name"})) == {"name"}


def test_resource_lives_in_its_own_region(aws, tmp_path):
    """A resource that names a region is made, found and removed there, not in the provider's."""
    run = changes(aws, tmp_path, aws_sqs_queue=collect().resources["aws_sqs_queue"])
    planned = {"id": UNKNOWN, "name": "far", "arn": UNKNOWN, "region": "eu-west-1"}
    state = run.create("aws_sqs_queue", QUEUE, planned).state
    assert state["arn"] == "arn:aws:sqs:eu-west-1:123456789012:far"
    assert run.find("aws_sqs_queue", state, MADE) == state
    assert "QueueUrls" not in client("sqs", aws).list_queues(QueueNamePrefix="far")
    assert run.delete("aws_sqs_queue", state, MADE).error is None
    assert run.find("aws_sqs_queue", state, MADE) is None

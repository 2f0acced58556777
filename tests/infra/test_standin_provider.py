"""The stand-in provider's own rules: plans, values on the wire, requests out of blocks, one adapter against AWS."""

from __future__ import annotations

import json
from types import MappingProxyType

import botocore.session
import msgpack
import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from eagle3.errors import ConfigError
from infra.rehearsal.provider.adapter import Made, PartlyMadeError, Recorded, call
from infra.rehearsal.provider.changes import MADE, RECORDED, Changes
from infra.rehearsal.provider.checks import problems
from infra.rehearsal.provider.cloud import cloud_at, is_missing, is_unimplemented
from infra.rehearsal.provider.connecting import connected
from infra.rehearsal.provider.names import settled
from infra.rehearsal.provider.planning import Defaults, plan_change, plan_new, settle
from infra.rehearsal.provider.registry import Registry, collect
from infra.rehearsal.provider.report import Report, read_report
from infra.rehearsal.provider.running import MadeAdapter
from infra.rehearsal.provider.schema import Attribute, Block, Nested
from infra.rehearsal.provider.shapes import convert, snake, structure
from infra.rehearsal.provider.templates import fill_templates
from infra.rehearsal.provider.wire import UNKNOWN, conform, decode, encode, is_unknown, plain
from standin_doubles import client, local_aws

OPTIONAL = Attribute(type="string", optional=True)
OPEN = Attribute(type="string", optional=True, computed=True)
TAGS = Attribute(type=["map", "string"], optional=True)
BLOCK = Block(
    attributes={
        "id": Attribute(type="string", computed=True),
        "name": OPEN,
        "name_prefix": OPEN,
        "size": Attribute(type="number", optional=True),
        "region": OPEN,
        "tags": TAGS,
        "tags_all": Attribute(type=["map", "string"], optional=True, computed=True),
    },
    blocks={
        "net": Nested(
            nesting="list",
            maximum=1,
            block=Block(attributes={"ids": OPTIONAL, "vpc": Attribute(type="string", computed=True)}),
        )
    },
)
DEFAULTS = Defaults(region="us-east-1", tags={"project": "eagle3"})
NOTHING_SET = MappingProxyType(dict.fromkeys(BLOCK.attributes) | {"net": []})


def body(**values):
    return {**NOTHING_SET, **values}


def refused(code, message="", status=400):
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Op")


def test_new_resource_leaves_open_what_is_computed():
    """Computed attributes without a value are unknown, in blocks too; others stay as they are set."""
    plan = plan_new(BLOCK, body(name="a", net=[{"ids": "x", "vpc": None}]), DEFAULTS).state
    assert is_unknown(plan["id"])
    assert plan["name"] == "a"
    assert plan["size"] is None
    assert plan["region"] == "us-east-1"
    assert plan["net"][0]["ids"] == "x"
    assert is_unknown(plan["net"][0]["vpc"])


def test_default_tags_are_merged():
    """Tags of the provider are in `tags_all`; the resource's own win; unknown tags leave it unknown."""
    plan = plan_new(BLOCK, body(tags={"project": "mine", "a": "b"}), DEFAULTS)
    assert plan.state["tags_all"] == {"project": "mine", "a": "b"}
    assert plan_new(BLOCK, body(), DEFAULTS).state["tags_all"] == {"project": "eagle3"}
    assert is_unknown(plan_new(BLOCK, body(tags=UNKNOWN), DEFAULTS).state["tags_all"])


def made(**values):
    """A resource as it is in the state."""
    own = values.get("tags") or {}
    return body(**{"id": "1", "name": "a", "region": "us-east-1", "tags_all": {"project": "eagle3", **own}, **values})


def planned(prior, proposed, volatile=()):
    return plan_change(BLOCK, prior, proposed, DEFAULTS, volatile=volatile, immutable=["name", "net.ids"])


def test_same_configuration_changes_nothing():
    """An unchanged resource is planned as it is, volatile attributes and all."""
    assert planned(made(), made(), volatile=["region"]).state == made()


def test_change_in_place_and_change_that_replaces():
    """A size changes in place; a name, or an immutable attribute of a block, does not."""
    assert planned(made(), made(size=3)).replace == ()
    assert planned(made(), made(name="b")).replace == ("name",)
    assert planned(made(net=[{"ids": "a", "vpc": "v"}]), made(net=[{"ids": "b", "vpc": "v"}])).replace == ("net",)
    assert is_unknown(planned(made(), made(size=3), volatile=["name"]).state["name"])


def test_new_default_tags_are_a_change():
    """A tag that the provider adds to everything is planned for resources that are there already."""
    assert planned(made(tags_all={}), made(tags_all={})).state["tags_all"] == {"project": "eagle3"}


def test_outputs_settle_what_was_open():
    """After apply an unknown value is the output of the adapter, or null; what was planned stays."""
    state = settle(BLOCK, plan_new(BLOCK, body(size=2, net=[{"ids": "x", "vpc": None}]), DEFAULTS).state,
                   {"id": 7, "size": 9, "net": [{"vpc": "v"}]})  # fmt: skip
    assert (state["id"], state["size"], state["name"]) == ("7", 2, None)
    assert state["net"] == [{"ids": "x", "vpc": "v"}]


def test_name_is_made_from_its_prefix():
    """A name that is left open is its prefix and a token; one that is set is kept."""
    state = plan_new(BLOCK, body(name_prefix="eagle3-"), DEFAULTS).state
    assert settled(BLOCK, state, lambda: "0f")["name"] == "eagle3-0f"
    assert settled(BLOCK, plan_new(BLOCK, body(name="a"), DEFAULTS).state, lambda: "0f")["name"] == "a"


def test_name_and_prefix_exclude_each_other():
    """Both at once are refused, one alone is not, nor one that is not known yet."""
    assert [each[2] for each in problems("aws_x", BLOCK, body(name="a", name_prefix="b"))] == [("name_prefix",)]
    assert problems("aws_x", BLOCK, body(name_prefix="b")) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5) | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_wire_keeps_values(value):
    """What is encoded is decoded as it was, unknown values included; without the protocol they are None."""
    assert decode(encode(value)) == value
    assert UNKNOWN not in json.loads(json.dumps([plain(value)]))


def test_refined_unknown_is_kept():
    """An unknown value of which Terraform knows something ("not null") goes back as it came."""
    refined = msgpack.ExtType(12, b"\x81\x01\xc2")
    assert is_unknown(decode(encode({"a": refined}))["a"])
    assert decode(encode({"a": refined})) == {"a": refined}


def test_answers_conform_to_types():
    """Members of an answer become attributes of the schema's types."""
    assert conform("string", True) == "true"
    assert conform("number", "5") == 5
    assert conform(["list", ["object", {"host_id": "string"}]], {"HostId": 4}) == [{"host_id": "4"}]
    assert conform("string", {"not": "simple"}) is None


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


QUEUE = Block(attributes={"id": OPEN, "name": OPTIONAL, "arn": Attribute(type="string", computed=True)})


def test_resource_is_made_found_lost_and_removed(aws, tmp_path):
    """A queue is in the local AWS after create, gone when deleted behind Terraform's back, and every change is noted."""
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

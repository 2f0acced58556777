"""The seam: classes are found by name, and policies say what they were given."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from infra.checkov import skip
from infra.framework import aws
from infra.policy import Statement, policy_document, trust_policy
from infra_doubles import synthesize


def test_resource_and_block_classes_are_found():
    """A resource's class and the class of a block of it come from the same module of the bindings."""
    assert aws.EksCluster.__module__ == aws.EksClusterVpcConfig.__module__


def test_unknown_class_names_the_nearest():
    """A class that the bindings do not have is an error that says what comes near."""
    with pytest.raises(AttributeError, match="kms_key"):
        aws.KmsKeys  # noqa: B018


def test_only_the_modules_asked_for_are_loaded():
    """The bindings' two thousand modules stay out: that is most of what a synthesis would take."""
    program = (
        "import sys; from infra.framework import aws; aws.KmsKey;"
        "print(sum(name.startswith('cdktf_cdktf_provider_aws.') for name in sys.modules), 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    count, torch = out.split()
    assert int(count) < 20
    assert torch == "False"


def test_synthesized_reference_is_followed():
    """A test can walk from a resource to the one that it refers to."""

    def build(stack):
        key = aws.KmsKey(stack, "Key", description="d", enable_key_rotation=True)
        aws.SnsTopic(stack, "Topic", name="t", kms_master_key_id=key.arn)

    stack = synthesize(build)
    assert stack.follow(stack.only("aws_sns_topic")["kms_master_key_id"])["description"] == "d"


def test_statement_refuses_a_whole_service():
    """No statement allows every action of a service, let alone every action."""
    with pytest.raises(AssertionError, match="whole service"):
        Statement(sid="A", actions=["s3:*"], resources=["arn:aws:s3:::b"])
    with pytest.raises(AssertionError, match="every action"):
        Statement(sid="A", actions=["*"])


def test_policy_text():
    """A policy is IAM's JSON: version, principals, conditions."""
    text = policy_document(
        [Statement(sid="A", actions=["kms:Decrypt"], services=["s3.amazonaws.com"], conditions={"Bool": {"a": "b"}})]
    )
    [statement] = json.loads(text)["Statement"]
    assert statement["Principal"] == {"Service": "s3.amazonaws.com"}
    assert statement["Condition"] == {"Bool": {"a": "b"}}
    assert json.loads(trust_policy("ec2.amazonaws.com"))["Statement"][0]["Action"] == ["sts:AssumeRole"]


def test_skip_is_kept_beside_its_resource():
    """An exception from a check stands in the resource's comment, with its reason."""

    def build(stack):
        queue = aws.SqsQueue(stack, "Queue", name="q")
        skip(queue, "CKV_AWS_27", "holds no data worth a key")

    comment = synthesize(build).only("aws_sqs_queue")["//"]
    assert comment["checkov"] == {"CKV_AWS_27": "holds no data worth a key"}
    with pytest.raises(AssertionError, match="sentence"):
        synthesize(lambda stack: skip(aws.SqsQueue(stack, "Queue", name="q"), "CKV_AWS_27", "no"))

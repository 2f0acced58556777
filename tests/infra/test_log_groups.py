"""Log groups: encrypted without a cycle, kept for as long as told, of the class that their use needs."""

from __future__ import annotations

import fnmatch

import pytest

from infra.constructs.operations.log_groups import LogGroups, LogGroupSpec, LogGroupsProps, build_log_group
from infra_doubles import SITE, synthesize
from operations_doubles import operations

KEY = "arn:aws:kms:us-east-1:123456789012:key/k"


def groups(**values):
    """A stack of one group of records."""
    spec = LogGroupSpec(id="Build", name=build_log_group(SITE.named("bootstrap")), kind="records")
    props = LogGroupsProps(site=SITE, key_arn=KEY, **{"retention_days": 365, "groups": (spec,), **values})
    return synthesize(lambda stack: LogGroups(stack, "Logs", props))


def test_key_of_a_group_lets_cloudwatch_logs_in_by_pattern():
    """D26: the group takes the key's ARN; the key's policy names groups by a pattern, no reference, so no cycle."""
    stack = operations()
    for group in stack.all("aws_cloudwatch_log_group"):
        key = stack.follow(group["kms_key_id"])
        assert group["kms_key_id"].endswith(".arn}")
        assert stack.references(key["policy"]) == []
        [statement] = [
            statement
            for statement in key.policy()
            if f"logs.{SITE.region}.amazonaws.com" in statement["Principal"].get("Service", [])
        ]
        pattern = statement["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
        assert fnmatch.fnmatchcase(SITE.arn("logs", f"log-group:{group['name']}"), pattern)


def test_every_group_ends():
    """No log is kept for ever."""
    assert {group["retention_in_days"] for group in operations().all("aws_cloudwatch_log_group")} == {365}


def test_class_follows_use():
    """Groups that metrics are taken from are of the standard class, the only one that can; records cost less."""
    found = {group["name"]: group["log_group_class"] for group in operations().all("aws_cloudwatch_log_group")}
    assert found == {
        "/aws/sagemaker/Endpoints/eagle3-test-small-endpoint": "STANDARD",
        "/aws/codebuild/eagle3-test-small-bootstrap": "INFREQUENT_ACCESS",
    }


def test_short_retention_is_an_exception_with_a_reason():
    """Less than a year is the environment's choice, and said beside the group; a year needs no exception."""
    assert "CKV_AWS_338" in groups(retention_days=30).only("aws_cloudwatch_log_group")["//"]["checkov"]
    assert "checkov" not in groups().only("aws_cloudwatch_log_group")["//"]


def test_names_that_the_key_would_refuse():
    """A group that is not named after the site, and a name given twice, are mistakes found at synthesis."""
    foreign = LogGroupSpec(id="Foreign", name="/Eagle3/metrics", kind="metrics")
    with pytest.raises(AssertionError, match="lets in"):
        groups(groups=(foreign,))
    twice = [LogGroupSpec(id=id, name=SITE.named("x"), kind="records") for id in ("A", "B")]
    with pytest.raises(AssertionError, match="repeat"):
        groups(groups=tuple(twice))

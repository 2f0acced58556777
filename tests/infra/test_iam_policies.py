"""Every policy of every stack: named actions, and no grant of everything on everything."""

from __future__ import annotations

import json

import pytest

from infra_doubles import listed
from stack_doubles import VARIANTS, variant

POLICY_KEYS = ("policy", "assume_role_policy", "access_policy", "policy_document")


def statements(stack):
    """(resource, statement) for every policy that a resource of the stack holds as JSON text."""
    for resource in stack.every():
        for key in POLICY_KEYS:
            text = resource.get(key)
            if isinstance(text, str) and '"Statement"' in text:
                for statement in json.loads(text)["Statement"]:
                    yield resource, statement


@pytest.mark.parametrize("name", VARIANTS)
def test_no_wildcard_actions(name):
    """No allowing statement has the action `*`, or all actions of a service; a key's owner is the account itself."""
    found = list(statements(variant(name)))
    assert found
    for resource, statement in found:
        if statement["Effect"] == "Deny":
            continue
        for action in listed(statement["Action"]):
            service, _, verb = action.partition(":")
            assert verb, (resource.id, action)
            if verb == "*":
                principal = statement["Principal"]["AWS"]
                assert (resource.kind, service) == ("aws_kms_key", "kms"), (resource.id, action)
                assert str(principal).endswith(":root"), (resource.id, principal)


@pytest.mark.parametrize("name", VARIANTS)
def test_everyone_is_let_in_only_under_a_condition(name):
    """A statement for every principal denies, or is bound to this account or one source; the policy of a VPC endpoint,
    which gives nobody a right, may name resources instead."""
    for resource, statement in statements(variant(name)):
        principal = statement.get("Principal", {})
        everyone = principal == "*" or "*" in listed(principal.get("AWS", [])) if principal else False
        if everyone and statement["Effect"] == "Allow":
            if resource.kind == "aws_vpc_endpoint" and "*" not in listed(statement["Resource"]):
                continue
            assert statement.get("Condition"), (resource.id, statement["Sid"])


# Actions that AWS knows no resources for, or whose resources do not exist before the call (service authorization
# reference of each service).
NO_RESOURCE = {
    "autoscaling:Describe",
    "budgets:View",
    "cloudwatch:",
    "ec2:Describe",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ecr:GetAuthorizationToken",
    "elasticloadbalancing:Describe",
    "iam:ListInstanceProfiles",
    "logs:",
    "pricing:GetProducts",
    "tag:GetResources",
    "xray:Put",
}


@pytest.mark.parametrize("name", VARIANTS)
def test_identity_policies_name_their_resources(name):
    """A role may use `*` as resource only for actions that know none."""
    for resource, statement in statements(variant(name)):
        if resource.kind not in ("aws_iam_policy", "aws_iam_role_policy") or statement["Effect"] == "Deny":
            continue
        if "*" in listed(statement["Resource"]):
            for action in listed(statement["Action"]):
                assert action.startswith(tuple(NO_RESOURCE)), (resource.id, statement["Sid"], action)

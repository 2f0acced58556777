"""Repositories of images: encrypted, scanned, immutable, bounded."""

from __future__ import annotations

import json

import pytest

from foundation_doubles import default
from infra.constructs.foundation.registry import Registry, RegistryProps
from infra_doubles import SITE, synthesize


def registry(*names, **props):
    made = []

    def build(scope):
        made.append(
            Registry(scope, "Registry", RegistryProps(site=SITE, key_arn="arn:aws:kms:k", repositories=names, **props))
        )

    return synthesize(build), made[0]


def test_repositories_are_secure():
    """Each repository has the key of the data, a scan on every push, and tags that never move."""
    stack = default()
    names = {one["name"] for one in stack.all("aws_ecr_repository")}
    assert names == {f"{SITE.name}/runtime", f"{SITE.name}/mirror/keda-operator"}
    for one in stack.all("aws_ecr_repository"):
        assert one["image_tag_mutability"] == "IMMUTABLE"
        assert one["image_scanning_configuration"]["scan_on_push"] is True
        [encryption] = one["encryption_configuration"]
        assert encryption["encryption_type"] == "KMS"
        assert stack.follow(encryption["kms_key"])["description"].endswith("models, images and state")
        assert one["force_delete"] is False


def test_lifecycle():
    """Repository → lifecycle: untagged images go after days, tagged ones beyond a number, in this order."""
    stack, _ = registry("runtime", keep_images=5, untagged_days=3)
    policy = stack.only("aws_ecr_lifecycle_policy")
    assert stack.follow(policy["repository"]).kind == "aws_ecr_repository"
    untagged, rest = (rule["selection"] for rule in json.loads(policy["policy"])["rules"])
    assert (untagged["tagStatus"], untagged["countNumber"], untagged["countUnit"]) == ("untagged", 3, "days")
    assert (rest["tagStatus"], rest["countType"], rest["countNumber"]) == ("any", "imageCountMoreThan", 5)


def test_outputs_are_by_name():
    """Others find a repository by the name they asked for; its values refer to it."""
    stack, made = registry("runtime", "mirror/keda")
    assert set(made.repositories) == {"runtime", "mirror/keda"}
    assert len({one.arn for one in made.repositories.values()}) == 2
    assert len(stack.all("aws_ecr_lifecycle_policy")) == 2


@pytest.mark.parametrize("name", ["Runtime", "a//b", "-a", ""])
def test_names_that_ecr_refuses(name):
    """A name that ECR would refuse when it is made is a programmer's fault here."""
    with pytest.raises(AssertionError, match="not names of repositories"):
        registry(name)

"""Repositories of container images.

Knows no image. Invariants: an image is scanned when it is pushed, and what a tag means never changes, so that a
deployment runs what was scanned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from infra.framework import Construct, aws
from infra.site import Site

_NAME = re.compile(r"[a-z0-9]+(?:[._/-][a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """One repository, as other constructs see it."""

    name: str
    """Below the stack's name, such as "eagle3-dev-large/runtime"; a token."""
    arn: str
    """Token."""
    url: str
    """Without tag or digest; a token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryProps:
    """What repositories are made from."""

    site: Site
    key_arn: str
    """Key of the domain data; fixed for the life of a repository."""
    repositories: Sequence[str]
    """Names below the stack's, such as "runtime"."""
    keep_images: int = 20
    """Newest images that stay; a deployment must not be older."""
    untagged_days: int = 7
    """Days after which an image without a tag goes."""
    force_delete: bool = False
    """Whether destroying the stack deletes the images."""


class Registry(Construct):
    """Private repositories in ECR."""

    def __init__(self, scope: Any, id: str, props: RegistryProps) -> None:
        super().__init__(scope, id)
        bad = [name for name in props.repositories if not _NAME.fullmatch(name)]
        assert not bad, f"not names of repositories: {bad}"
        made = {name: self._repository(name, props) for name in props.repositories}
        self.repositories: Mapping[str, Repository] = MappingProxyType(made)
        """By the names asked for."""

    def _repository(self, name: str, props: RegistryProps) -> Repository:
        id = "".join(word.capitalize() for word in re.split(r"[._/-]", name))
        repository = aws.EcrRepository(
            self,
            id,
            name=f"{props.site.name}/{name}",
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration={"scan_on_push": True},
            encryption_configuration=[
                aws.EcrRepositoryEncryptionConfiguration(encryption_type="KMS", kms_key=props.key_arn)
            ],
            force_delete=props.force_delete,
        )
        aws.EcrLifecyclePolicy(
            self,
            f"{id}Lifecycle",
            repository=repository.name,
            policy=json.dumps({"rules": _lifecycle(props.keep_images, props.untagged_days)}),
        )
        return Repository(name=repository.name, arn=repository.arn, url=repository.repository_url)


def _lifecycle(keep_images: int, untagged_days: int) -> list[dict[str, Any]]:
    expire = {"type": "expire"}
    return [
        {
            "rulePriority": 1,
            "description": f"images without a tag, {untagged_days} days after their push",
            "selection": {
                "tagStatus": "untagged",
                "countType": "sinceImagePushed",
                "countUnit": "days",
                "countNumber": untagged_days,
            },
            "action": expire,
        },
        {
            "rulePriority": 2,
            "description": f"all but the newest {keep_images} images",
            "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": keep_images},
            "action": expire,
        },
    ]

"""Repositories of images, and their policies."""

from __future__ import annotations

from infra.rehearsal.provider.adapter import Made, call, fill

_LIFECYCLE = call("put_lifecycle_policy", repositoryName="{repository}", lifecyclePolicyText="{policy}")
_POLICY = call("set_repository_policy", repositoryName="{repository}", policyText="{policy}")

RESOURCES = {
    "aws_ecr_repository": Made(
        service="ecr",
        create=fill("create_repository", repositoryName="{name}"),
        id="{name}",
        read=call("describe_repositories", repositoryNames=["{id}"]),
        found="repositories[0]",
        outputs={"arn": "repositoryArn", "repository_url": "repositoryUri", "registry_id": "registryId"},
        update=[
            call(
                "put_image_tag_mutability",
                repositoryName="{id}",
                imageTagMutability="{image_tag_mutability}",
                when=["image_tag_mutability"],
            ),
            call(
                "put_image_scanning_configuration",
                repositoryName="{id}",
                imageScanningConfiguration="{image_scanning_configuration}",
                when=["image_scanning_configuration"],
            ),
            call("tag_resource", resourceArn="{arn}", tags="{tags_all}", when=["tags_all"]),
        ],
        delete=call("delete_repository", repositoryName="{id}", force="{force_delete}"),
    ),
    "aws_ecr_lifecycle_policy": Made(
        service="ecr",
        create=_LIFECYCLE,
        id="{repository}",
        read=call("get_lifecycle_policy", repositoryName="{id}"),
        outputs={"registry_id": "registryId"},
        update=[_LIFECYCLE],
        delete=call("delete_lifecycle_policy", repositoryName="{id}"),
    ),
    "aws_ecr_repository_policy": Made(
        service="ecr",
        create=_POLICY,
        id="{repository}",
        read=call("get_repository_policy", repositoryName="{id}"),
        outputs={"registry_id": "registryId"},
        update=[_POLICY],
        delete=call("delete_repository_policy", repositoryName="{id}"),
    ),
}

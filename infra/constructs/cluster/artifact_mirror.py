"""The project that brings software into the account: tools and charts into a bucket, images into the registry.

Runs outside the VPC, where there is internet, and has no right to anything inside it. Knows no cluster. Invariant: it
can write below its prefix of the bucket and into the repositories named, and change nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.constructs.cluster.build_project import BuildLog, BuildProject, BuildProjectProps
from infra.framework import Construct
from infra.kubernetes.components import mirrored_repositories
from infra.kubernetes.mirror_buildspec import mirror_buildspec, repository_variable
from infra.policy import Statement
from infra.settings.components import ComponentSettings
from infra.site import Site

SUFFIX = "mirror"


@dataclass(frozen=True, kw_only=True, slots=True)
class MirrorTarget:
    """A private repository that the mirror pushes to."""

    url: str
    """Without tag or digest."""
    arn: str
    """For the role."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactStore:
    """The part of a bucket that mirror and bootstrap share."""

    bucket: str
    """Name of a versioned bucket that sends its changes to EventBridge."""
    bucket_arn: str
    """Its ARN."""
    key_arn: str
    """Key that its objects are encrypted with by default."""
    prefix: str = "bootstrap"
    """First part of every key, without a slash at its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactMirrorProps:
    """What the mirror is made from."""

    site: Site
    """Where it is."""
    components: ComponentSettings
    """What is mirrored."""
    store: ArtifactStore
    """Where tools and charts go."""
    repositories: Mapping[str, MirrorTarget]
    """By the names of `mirrored_repositories(components)`."""
    log: BuildLog
    """Its log group."""


class ArtifactMirror(Construct):
    """The CodeBuild project `mirror`."""

    def __init__(self, scope: Any, id: str, props: ArtifactMirrorProps) -> None:
        super().__init__(scope, id)
        site, store = props.site, props.store
        targets = {name: props.repositories[name] for name in mirrored_repositories(props.components)}
        project = BuildProject(
            self,
            "Mirror",
            BuildProjectProps(
                site=site,
                suffix=SUFFIX,
                description="copies pinned tools, charts and images into this account",
                buildspec=mirror_buildspec(props.components),
                environment={
                    "BUCKET": store.bucket,
                    "PREFIX": store.prefix,
                    "REGISTRY": f"{site.account_id}.dkr.ecr.{site.region}.{site.dns_suffix}",
                    **{repository_variable(name): target.url for name, target in targets.items()},
                },
                statements=_statements(site, store, [target.arn for target in targets.values()]),
                log=props.log,
                key_arn=store.key_arn,
                timeout_min=45,
            ),
        )
        self.project_name: str = project.project_name
        """Token."""
        self.project_arn: str = project.project_arn
        """Token."""
        self.role_arn: str = project.role_arn
        """Token."""


def _statements(site: Site, store: ArtifactStore, repositories: list[str]) -> list[Statement]:
    return [
        Statement(
            sid="WriteArtifacts",
            actions=["s3:GetObject", "s3:PutObject"],
            resources=[f"{store.bucket_arn}/{store.prefix}/{folder}/*" for folder in ("charts", "tools")],
        ),
        # Without it S3 answers "forbidden" for what is not there yet.
        Statement(
            sid="SeeWhatIsThere",
            actions=["s3:ListBucket"],
            resources=[store.bucket_arn],
            conditions={"StringLike": {"s3:prefix": f"{store.prefix}/*"}},
        ),
        Statement(
            sid="EncryptArtifacts",
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=[store.key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"s3.{site.region}.{site.dns_suffix}"}},
        ),
        Statement(sid="LogInToRegistry", actions=["ecr:GetAuthorizationToken"]),
        Statement(
            sid="PushImages",
            actions=[
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:CompleteLayerUpload",
                "ecr:GetDownloadUrlForLayer",
                "ecr:InitiateLayerUpload",
                "ecr:PutImage",
                "ecr:UploadLayerPart",
            ],
            resources=repositories,
        ),
    ]

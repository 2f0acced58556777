"""Where Terraform keeps its state."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from infra.settings.section import Section


class StateSettings(Section):
    """Local files by default; an S3 bucket with lock files for teams (the `bootstrap` stack makes it)."""

    backend: Literal["local", "s3"] = Field(default="local", description="local files, or a bucket")
    bucket: str | None = Field(
        default=None, min_length=3, max_length=63, description="name of the bucket (output StateBucket of `bootstrap`)"
    )
    kms_key_arn: str | None = Field(
        default=None,
        pattern=r"^arn:[\w-]+:kms:[\w-]+:\d{12}:(key|alias)/[\w/-]+$",
        description="key that encrypts the state (output StateKeyArn of `bootstrap`)",
    )
    region: str | None = Field(default=None, description="region of the bucket; null: that of the stacks")
    prefix: str = Field(
        default="eagle3", pattern=r"^[\w./-]*\w$", description="folder in the bucket; the stack's name is put below it"
    )

    @model_validator(mode="after")
    def _bucket_is_named(self) -> Self:
        if self.backend == "s3" and (self.bucket is None or self.kms_key_arn is None):
            raise ValueError(
                "state.backend s3 needs state.bucket and state.kms_key_arn: deploy the stack `bootstrap` and take its "
                "outputs StateBucket and StateKeyArn"
            )
        return self

"""How the large stack serves: the release of the chart eagle3 in its cluster.

Knows no chart's values; `infra/kubernetes/workload.py` makes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from infra.settings.endpoint_facts import OUR_CUDA, RELEASE
from infra.settings.image_tag import exact_tag
from infra.settings.section import Section


class WorkloadSettings(Section):
    """Chart, image, weights and replicas."""

    chart_archive: Path | None = Field(
        default=None,
        description="packaged chart eagle3 that the bootstrap installs, such as dist/eagle3-0.1.0.tgz of "
        "`make release`; null: the cluster is made without it",
    )
    image_tag: str = Field(
        default=f"{RELEASE}-cuda{OUR_CUDA}",
        pattern=r"^\w[\w.-]{0,127}$",
        description="tag of the runtime's image in the repository of `bootstrap`; never `latest`, which moves",
    )
    image_digest: str | None = Field(
        default=None, pattern=r"^sha256:[0-9a-f]{64}$", description="digest of that image; null: by tag"
    )
    weights_prefix: str | None = Field(
        default=None,
        pattern=r"^[\w!.*'()-]+(/[\w!.*'()-]+)*$",
        description="folder of the stack's model bucket that is copied to a node's disk; deployment.target and "
        "deployment.draft are folders below it. null: the image holds the weights",
    )
    weights_gib: float | None = Field(
        default=None, gt=0, description="GiB of target and draft; needed with weights_prefix, since pods ask for disk"
    )
    cache_gib: float = Field(default=8, gt=0, description="GiB of the KV cache, in the GPUs' memory")
    min_replicas: int = Field(default=1, ge=1, le=100, description="replicas at least")
    max_replicas: int | None = Field(
        default=None, ge=1, le=1000, description="replicas at most; null: as many as the pools' budget has GPUs for"
    )
    cold_start_s: int = Field(
        default=900,
        ge=60,
        le=7200,
        description="seconds from the wish for a replica to its first answer: node, image, weights, warm-up",
    )

    @field_validator("image_tag")
    @classmethod
    def _tag_keeps_its_meaning(cls, value: str) -> str:
        return exact_tag(value)

    @model_validator(mode="after")
    def _weights_are_weighed(self) -> Self:
        if self.weights_prefix is not None and self.weights_gib is None:
            raise ValueError("workload.weights_gib is needed with workload.weights_prefix: pods ask for the disk")
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(
                f"workload.max_replicas must be at least min_replicas ({self.min_replicas}); got {self.max_replicas}"
            )
        return self

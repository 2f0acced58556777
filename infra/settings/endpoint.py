"""A SageMaker endpoint: how it serves, on what, with which image and weights, how it is updated and scaled.

Each section checks itself; what needs the deployment config, the region or the network is checked by
`endpoint_checks`. Bounds without a word are those of SageMaker's API.
"""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from infra.catalogue.inference_ami import CUDA_PATTERN
from infra.settings.image_tag import exact_tag
from infra.settings.section import Section

_TAG = re.compile(r"\w[\w.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PREFIX = re.compile(r"[\w!.*'()-]+(/[\w!.*'()-]+)*/")


class ImageSettings(Section):
    """The container. It is named exactly, so that a new instance never runs something else than the last one."""

    container: Literal["eagle3", "vllm", "lmi"] = Field(
        default="eagle3",
        description="eagle3: our image from the stack's own registry; vllm, lmi: AWS's containers, which know neither "
        "our metrics nor our trees",
    )
    tag: str | None = Field(
        default=None,
        description="tag of the image; null: this release's for CPU or CUDA (eagle3), the one that this release was "
        "written for (vllm, lmi)",
    )
    digest: str | None = Field(default=None, description="sha256:… of the image, instead of a tag")
    cuda: str | None = Field(
        default=None,
        pattern=CUDA_PATTERN,
        description="CUDA version of the image, such as 13.0; null: none on a CPU, else the tag's or that of eagle3's",
    )
    inference_ami_version: str | None = Field(
        default=None, description="machine image of the GPU instances; null: the one that fits the CUDA version"
    )

    @field_validator("tag")
    @classmethod
    def _tag_is_exact(cls, value: str | None) -> str | None:
        if value is not None and not _TAG.fullmatch(value):
            raise ValueError("must be letters, digits, '_', '.' and '-', 128 at most, such as 0.1.0-cuda13.0")
        return None if value is None else exact_tag(value)

    @field_validator("digest")
    @classmethod
    def _digest_is_whole(cls, value: str | None) -> str | None:
        if value is not None and not _DIGEST.fullmatch(value):
            raise ValueError("must be sha256: and 64 hexadecimal digits, as `docker images --digests` shows it")
        return value

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if self.tag is not None and self.digest is not None:
            raise ValueError("image: give tag or digest, not both")
        return self


class WeightsSettings(Section):
    """Where the container finds target and draft, which `deployment.target` and `deployment.draft` name."""

    source: Literal["image", "s3", "hub"] = Field(
        default="image",
        description="image: in the image itself; s3: folders below `s3_prefix`, with the network closed; hub: ids on "
        "the Hugging Face Hub, which needs NAT",
    )
    s3_prefix: str | None = Field(
        default=None, description="folder in the model bucket that holds the weights and nothing else, ending in '/'"
    )

    @field_validator("s3_prefix")
    @classmethod
    def _prefix_is_a_folder(cls, value: str | None) -> str | None:
        # A prefix without its slash would also match `llama-8b-old/`.
        if value is not None and not _PREFIX.fullmatch(value):
            raise ValueError("must be folders, each followed by one '/', such as models/llama-3.1-8b/")
        return value

    @model_validator(mode="after")
    def _prefix_belongs_to_s3(self) -> Self:
        if (self.source == "s3") != (self.s3_prefix is not None):
            raise ValueError("weights: s3_prefix is given with source s3, and only with it")
        return self


class RolloutSettings(Section):
    """How a changed endpoint takes over: beside the old one (blue/green), and back again if an alarm goes off."""

    strategy: Literal["ALL_AT_ONCE", "CANARY", "LINEAR"] = Field(
        default="ALL_AT_ONCE",
        description="all traffic in one step; a few instances first; or some instances at a time. Needs room in the "
        "quota for twice the instances",
    )
    step_instances: int = Field(
        default=1, ge=1, description="instances of the canary (half of all at most) or of a step (a tenth to a half)"
    )
    wait_s: int = Field(default=300, ge=0, le=3600, description="seconds between two steps, in which alarms may end it")
    bake_s: int = Field(
        default=600, ge=0, le=3600, description="seconds that the old instances stay after the last step, to roll back"
    )


class AutoscalingSettings(Section):
    """How many instances there are. One policy is enough to add instances; all must agree to take some away."""

    enabled: bool = Field(default=True, description="whether the number of instances follows the load")
    min_instances: int = Field(default=1, ge=1, description="instances at least; asynchronous endpoints may go to 0")
    max_instances: int = Field(default=2, ge=1, description="instances at most: what the endpoint can cost at most")
    target_concurrency: float | None = Field(
        default=None,
        gt=0,
        description="requests at once per instance that is aimed at; null: 70 % of deployment.limits.concurrency",
    )
    queue_depth: float | None = Field(
        default=4.0,
        gt=0,
        description="waiting requests per instance that is aimed at, from the metric QueueDepth of our image; null: "
        "the queue scales nothing",
    )
    cold_start_s: int = Field(
        default=600,
        ge=60,
        le=7200,
        description="seconds from asking for an instance to its first answer; no second one is asked for meanwhile, "
        "and none is taken away in twice the time",
    )

    @model_validator(mode="after")
    def _range_is_a_range(self) -> Self:
        if self.min_instances > self.max_instances:
            raise ValueError(
                f"autoscaling: min_instances {self.min_instances} is above max_instances {self.max_instances}"
            )
        return self


class AsynchronousSettings(Section):
    """Requests and answers as objects in a bucket: up to an hour and 1 GB each; no instance while there are none."""

    max_concurrent: int | None = Field(
        default=None, ge=1, le=1000, description="requests at once per instance; null: deployment.limits.concurrency"
    )
    backlog_per_instance: float = Field(
        default=5.0, gt=0, description="waiting requests per instance that scaling aims at"
    )
    scale_to_zero: bool = Field(default=True, description="whether the last instance goes when nothing waits")
    notify: bool = Field(default=True, description="whether topics hear of successes and errors")


class ServerlessSettings(Section):
    """A CPU container that is billed by the millisecond. No GPU, no VPC, no network isolation: SageMaker has none."""

    memory_mb: Literal[1024, 2048, 3072, 4096, 5120, 6144] = Field(
        default=6144, description="memory of a container; its CPUs grow with it"
    )
    max_concurrency: int = Field(default=2, ge=1, le=200, description="containers at once")


class EndpointSettings(Section):
    """One endpoint. Non-streaming answers must come within 60 s, streams within 8 minutes: SageMaker cuts them."""

    mode: Literal["realtime", "async", "serverless"] = Field(
        default="realtime", description="answers at once, answers into a bucket, or billed by use on CPUs"
    )
    instance_type: str = Field(default="ml.g5.xlarge", description="instances of the endpoint; serverless has none")
    instance_count: int = Field(default=1, ge=1, description="instances to start with")
    image: ImageSettings = Field(default_factory=ImageSettings, description="the container")
    weights: WeightsSettings = Field(default_factory=WeightsSettings, description="where the model comes from")
    model_download_timeout_s: int = Field(
        default=1800, ge=60, le=3600, description="seconds that the weights may take from the bucket to the instance"
    )
    startup_timeout_s: int = Field(
        default=1800, ge=60, le=3600, description="seconds from the container's start to its first good /ping"
    )
    volume_gb: int | None = Field(
        default=None, ge=1, le=512, description="disk of an instance that has none of its own; null: SageMaker's choice"
    )
    rollout: RolloutSettings = Field(default_factory=RolloutSettings, description="how a change takes over")
    autoscaling: AutoscalingSettings = Field(default_factory=AutoscalingSettings, description="number of instances")
    asynchronous: AsynchronousSettings = Field(
        default_factory=AsynchronousSettings, description="what `mode: async` adds"
    )
    serverless: ServerlessSettings = Field(
        default_factory=ServerlessSettings, description="what `mode: serverless` has instead of instances"
    )
    data_capture_percent: int = Field(
        default=0, ge=0, le=100, description="share of prompts and answers kept in the model bucket; 0: none (realtime)"
    )

    @property
    def fewest_instances(self) -> int:
        """Instances that a rollout can meet at the least; 0 where the endpoint sleeps."""
        if self.mode == "async" and self.autoscaling.enabled and self.asynchronous.scale_to_zero:
            return 0
        return self.autoscaling.min_instances if self.autoscaling.enabled else self.instance_count

    @property
    def most_instances(self) -> int:
        """Instances that a rollout can meet at the most."""
        return self.autoscaling.max_instances if self.autoscaling.enabled else self.instance_count

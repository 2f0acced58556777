"""What follows from an endpoint's settings: its instance, CUDA version, machine image, tag and scaling targets.

Knows settings and catalogues, no framework. Invariant: nothing here is set twice; each value has one source.
"""

from __future__ import annotations

import math

from eagle3.config.deployment import DeploymentConfig
from infra.catalogue.aws_containers import AWS_CONTAINERS, tag_cuda
from infra.catalogue.inference_ami import InferenceAmi, check_ami, choose_ami
from infra.catalogue.sagemaker_instances import EndpointInstance, endpoint_instance
from infra.settings.endpoint import EndpointSettings

RELEASE = "0.1.0"
"""Release of the kit whose image is deployed by default; that of pyproject.toml."""

OUR_CUDA = "13.0"
"""CUDA version of our GPU image."""

_CONCURRENCY_SHARE = 0.7
_PROVISION_S = 900
_SHORTEST_ROLLOUT_S, _LONGEST_ROLLOUT_S = 600, 28800


def instance_of(settings: EndpointSettings) -> EndpointInstance | None:
    """The endpoint's instance type; None where it is serverless."""
    return None if settings.mode == "serverless" else endpoint_instance(settings.instance_type)


def has_gpu(settings: EndpointSettings) -> bool:
    """Whether the container sees a GPU."""
    instance = instance_of(settings)
    return instance is not None and instance.gpus > 0


def image_tag(settings: EndpointSettings) -> str | None:
    """Tag of the image; None where a digest names it."""
    image = settings.image
    if image.tag is not None or image.digest is not None:
        return image.tag
    if image.container != "eagle3":
        return AWS_CONTAINERS[image.container].tag
    cuda = image_cuda(settings)
    return f"{RELEASE}-cpu" if cuda is None else f"{RELEASE}-cuda{cuda}"


def image_cuda(settings: EndpointSettings) -> str | None:
    """CUDA version of the image; None for an image without."""
    image = settings.image
    if image.cuda is not None:
        return image.cuda
    if image.container == "eagle3":
        return OUR_CUDA if has_gpu(settings) else None
    tag = image_tag(settings)
    return None if tag is None else tag_cuda(tag)


def machine_image(settings: EndpointSettings) -> InferenceAmi | None:
    """SageMaker's machine image for the endpoint's GPU instances, matched to the image's CUDA; None without GPU."""
    instance, cuda = instance_of(settings), image_cuda(settings)
    if instance is None or instance.gpus == 0 or cuda is None:
        return None
    chosen = settings.image.inference_ami_version
    return choose_ami(cuda, instance.family) if chosen is None else check_ami(chosen, cuda, instance.family)


def target_concurrency(settings: EndpointSettings, deployment: DeploymentConfig) -> float:
    """Requests at once per instance that autoscaling aims at: below the limit, so that bursts fit."""
    wanted = settings.autoscaling.target_concurrency
    return wanted if wanted is not None else round(_CONCURRENCY_SHARE * deployment.limits.concurrency, 1)


def queue_target(settings: EndpointSettings) -> float | None:
    """Waiting requests per instance that autoscaling aims at; None where nobody counts them."""
    return settings.autoscaling.queue_depth if settings.image.container == "eagle3" else None


def concurrent_invocations(settings: EndpointSettings, deployment: DeploymentConfig) -> int:
    """Requests that SageMaker gives to an instance of an asynchronous endpoint at once."""
    wanted = settings.asynchronous.max_concurrent
    return wanted if wanted is not None else min(deployment.limits.concurrency, 1000)


def rollout_steps(settings: EndpointSettings) -> int:
    """Waits of a rollout: one after a canary, one after each linear step but the last."""
    if settings.rollout.strategy == "LINEAR":
        return math.ceil(settings.most_instances / settings.rollout.step_instances) - 1
    return 1 if settings.rollout.strategy == "CANARY" else 0


def rollout_timeout_s(settings: EndpointSettings) -> int:
    """Seconds after which a rollout counts as failed: new instances with weights loaded, every wait, the bake."""
    rollout = settings.rollout
    start = _PROVISION_S + settings.model_download_timeout_s + settings.startup_timeout_s
    needed = start + rollout_steps(settings) * rollout.wait_s + rollout.bake_s
    return min(max(needed, _SHORTEST_ROLLOUT_S), _LONGEST_ROLLOUT_S)


def is_isolated(settings: EndpointSettings) -> bool:
    """Whether the container has no network at all; what it needs is in the image or put there from the bucket."""
    return settings.weights.source != "hub" and settings.mode != "serverless"

"""What an endpoint's settings must fit: the deployment config, the region, the network, and SageMaker's own rules.

Each check raises one ConfigError with a remedy. `check_endpoint` runs them all; the stack calls it before it builds.
"""

from __future__ import annotations

import re

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.embedded import EMBEDDED
from eagle3.errors import ConfigError
from infra.catalogue.sagemaker_instances import check_region
from infra.settings.endpoint import EndpointSettings
from infra.settings.endpoint_facts import image_cuda, image_tag, instance_of, machine_image

LONGEST_DRAIN_S = 25.0
"""SageMaker kills a container 30 s after it asked it to stop; 5 s are for the rest of the shutdown."""
LARGEST_BODY = 6_291_456
"""Bytes of a request that SageMaker passes on."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def check_endpoint(settings: EndpointSettings, deployment: DeploymentConfig, *, region: str, has_nat: bool) -> None:
    """All checks; called when region and network of the stack are known."""
    check_serverless(settings, deployment)
    check_instance(settings, region)
    check_image(settings, deployment)
    check_weights(settings, deployment, has_nat=has_nat)
    check_counts(settings)
    check_rollout(settings)
    check_limits(settings, deployment)


def check_serverless(settings: EndpointSettings, deployment: DeploymentConfig) -> None:
    """Refuse what serverless endpoints do not have: GPUs, instances, the VPC's weights, captured data."""
    if settings.mode != "serverless":
        return
    faults = {
        "endpoint.image.cuda to null": settings.image.cuda is not None,
        "endpoint.image.inference_ami_version to null": settings.image.inference_ami_version is not None,
        "endpoint.image.container to eagle3": settings.image.container != "eagle3",
        "endpoint.weights.source to image": settings.weights.source != "image",
        "deployment.device to cpu": deployment.device.partition(":")[0] != "cpu",
        "deployment.engine.name to native": deployment.engine.name != "native",
    }
    wrong = [remedy for remedy, is_wrong in faults.items() if is_wrong]
    if wrong:
        raise ConfigError(
            "endpoint.mode serverless has no GPU and no VPC: it runs our CPU image with the native engine and the "
            f"model inside it; set {', '.join(wrong)}, or endpoint.mode to realtime or async"
        )
    if "instance_type" in settings.model_fields_set:
        raise ConfigError(
            f"endpoint.mode serverless has no instances; got endpoint.instance_type {settings.instance_type}; remove "
            "it (endpoint.serverless says how much memory there is), or set endpoint.mode to realtime or async"
        )


def check_instance(settings: EndpointSettings, region: str) -> None:
    """Refuse an unknown instance type, one that the region does not have, and a disk size where there are disks."""
    instance = instance_of(settings)
    if instance is None:
        return
    check_region(instance, region)
    if instance.has_local_disk and settings.volume_gb is not None:
        raise ConfigError(
            f"endpoint.volume_gb must be null for {instance.name}: the weights lie on its own {instance.local_gb} GB; "
            f"got {settings.volume_gb}"
        )


def check_image(settings: EndpointSettings, deployment: DeploymentConfig) -> None:
    """Refuse an image that its instances cannot run: GPU or none, CUDA, machine image, GPUs of the engine."""
    instance = instance_of(settings)
    if instance is None:
        return
    image, device = settings.image, deployment.device.partition(":")[0]
    if instance.gpus == 0:
        if image.container != "eagle3" or image.cuda is not None or device != "cpu":
            raise ConfigError(
                f"endpoint.instance_type {instance.name} has no GPU; got endpoint.image.container {image.container}, "
                f"endpoint.image.cuda {image.cuda}, deployment.device {deployment.device}; a CPU instance runs our CPU "
                "image: container eagle3, cuda null, device cpu"
            )
        return
    if "device" in deployment.model_fields_set and device == "cpu":
        raise ConfigError(
            f"endpoint.instance_type {instance.name} has {instance.gpus} GPUs, deployment.device is cpu: nobody would "
            "use them; leave deployment.device out, or take a CPU instance such as ml.c7i.4xlarge"
        )
    if image_cuda(settings) is None:
        named = image.digest if image_tag(settings) is None else image_tag(settings)
        raise ConfigError(
            f"endpoint.image: the CUDA version of {named} is not known, and the instances' driver must fit it; set "
            "endpoint.image.cuda"
        )
    machine_image(settings)
    parallel = deployment.engine.tensor_parallel
    if parallel > instance.gpus:
        raise ConfigError(
            f"deployment.engine.tensor_parallel {parallel} needs as many GPUs; {instance.name} has {instance.gpus}; "
            "lower it or take a larger endpoint.instance_type"
        )


def check_weights(settings: EndpointSettings, deployment: DeploymentConfig, *, has_nat: bool) -> None:
    """Refuse weights that the container cannot reach."""
    source, container = settings.weights.source, settings.image.container
    if source == "image" and container != "eagle3":
        raise ConfigError(
            f"endpoint.image.container {container} holds no model; set endpoint.weights.source to s3 (or hub) and "
            "deployment.target to the model"
        )
    if source != "hub":
        return
    if container == "eagle3":
        raise ConfigError(
            "endpoint.weights.source hub: our image downloads nothing; copy the weights into the model bucket and set "
            "endpoint.weights.source to s3, or set endpoint.image.container to vllm or lmi"
        )
    if not has_nat:
        raise ConfigError(
            "endpoint.weights.source hub needs a way to the internet; got network.nat none; set network.nat to single, "
            "or copy the weights into the model bucket and set endpoint.weights.source to s3"
        )
    for key, value in (("target", deployment.target), ("draft", deployment.draft)):
        if value is not None and (value == EMBEDDED or not _HUB_ID.fullmatch(value)):
            raise ConfigError(
                f"endpoint.weights.source hub: deployment.{key} must be an id such as "
                f"meta-llama/Llama-3.1-8B-Instruct; got {value!r}"
            )


def check_counts(settings: EndpointSettings) -> None:
    """Refuse to start with a number of instances outside of what autoscaling allows."""
    scaling = settings.autoscaling
    if settings.mode == "serverless" or not scaling.enabled:
        return
    if not scaling.min_instances <= settings.instance_count <= scaling.max_instances:
        raise ConfigError(
            f"endpoint.instance_count must lie between endpoint.autoscaling.min_instances {scaling.min_instances} and "
            f"max_instances {scaling.max_instances}; got {settings.instance_count}"
        )


def check_rollout(settings: EndpointSettings) -> None:
    """Refuse steps that SageMaker does not take: a canary above half, a linear step outside a tenth to a half."""
    rollout, fewest, most = settings.rollout, settings.fewest_instances, settings.most_instances
    if settings.mode == "serverless" or rollout.strategy == "ALL_AT_ONCE":
        return
    if fewest < 2:
        raise ConfigError(
            f"endpoint.rollout.strategy {rollout.strategy} needs 2 instances at all times, one for each side; the "
            f"endpoint may have {fewest}; set endpoint.rollout.strategy to ALL_AT_ONCE, which bakes for bake_s, or "
            "raise endpoint.autoscaling.min_instances (endpoint.instance_count without autoscaling)"
        )
    if 2 * rollout.step_instances > fewest:
        raise ConfigError(
            f"endpoint.rollout.step_instances must be at most half of the endpoint's instances, which may be {fewest}; "
            f"got {rollout.step_instances}; allowed: 1 to {fewest // 2}"
        )
    if rollout.strategy == "LINEAR" and 10 * rollout.step_instances < most:
        raise ConfigError(
            f"endpoint.rollout.step_instances must be at least a tenth of the endpoint's instances, which may be "
            f"{most}; got {rollout.step_instances}"
        )


def check_limits(settings: EndpointSettings, deployment: DeploymentConfig) -> None:
    """Refuse limits of the server that SageMaker would cut short."""
    limits = deployment.limits
    if limits.drain_s > LONGEST_DRAIN_S:
        raise ConfigError(
            f"deployment.limits.drain_s must be at most {LONGEST_DRAIN_S:g} behind SageMaker, which kills the "
            f"container 30 s after it asks it to stop; got {limits.drain_s:g}"
        )
    if limits.max_body_bytes > LARGEST_BODY:
        raise ConfigError(
            f"deployment.limits.max_body_bytes must be at most {LARGEST_BODY}, what SageMaker passes on; got "
            f"{limits.max_body_bytes}"
        )
    if deployment.serving.api_keys_file is not None:
        raise ConfigError(
            "deployment.serving.api_keys_file must be null behind SageMaker, which passes no key on and lets callers "
            f"in by IAM (sagemaker:InvokeEndpoint); got {str(deployment.serving.api_keys_file)!r}"
        )
    if settings.mode != "serverless" and deployment.engine.start_timeout_s > settings.startup_timeout_s:
        raise ConfigError(
            f"endpoint.startup_timeout_s {settings.startup_timeout_s} is shorter than "
            f"deployment.engine.start_timeout_s {deployment.engine.start_timeout_s:g}: SageMaker would kill a "
            "container that still loads; raise the first (3600 at most) or lower the second"
        )
    if settings.data_capture_percent > 0 and settings.mode != "realtime":
        raise ConfigError(
            f"endpoint.data_capture_percent must be 0 in mode {settings.mode}: SageMaker captures realtime endpoints "
            f"only; got {settings.data_capture_percent}"
        )

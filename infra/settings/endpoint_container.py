"""The container of an endpoint: its deployment config as SageMaker runs it, its environment, its image.

The user's one deployment config goes in; address, metrics and paths, which SageMaker decides, are put into a copy.
Nothing of it is typed twice: the environment is made by `eagle3.config`. Reads no environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.engine_arguments import lmi_container_environment, vllm_container_environment
from eagle3.config.environment import to_environment
from eagle3.errors import ConfigError
from infra.catalogue.aws_containers import AWS_CONTAINERS, registry_account
from infra.settings.endpoint import EndpointSettings
from infra.settings.endpoint_facts import has_gpu, image_tag
from infra.settings.weights import mounted
from infra.site import Site

WEIGHTS_FOLDER = "/opt/ml/model"
"""Where SageMaker puts the objects of the weights' prefix."""

SAGEMAKER_PORT = 8080
_LONGEST_VALUE = 1024
_MOST_VARIABLES = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image in a registry, as a model names it and a role may pull it."""

    uri: str
    """With tag or digest."""
    repository_arn: str
    """The repository."""


def endpoint_deployment(
    settings: EndpointSettings, deployment: DeploymentConfig, *, endpoint_name: str
) -> DeploymentConfig:
    """The config that the container runs with.

    SageMaker decides host, port and where weights lie; the dashboards and alarms want metrics from stdout with the
    endpoint's name; a GPU instance uses its GPU in bfloat16 unless the config says something else.
    """
    changes: dict[str, Any] = {
        "serving": deployment.serving.model_copy(update={"host": "0.0.0.0", "port": SAGEMAKER_PORT}),  # noqa: S104
        "metrics": deployment.metrics.model_copy(
            update={"emf": "stdout", "agent_endpoint": None, "dimensions": {"EndpointName": endpoint_name}}
        ),
    }
    if has_gpu(settings):
        defaults = {"device": "cuda", "dtype": "bfloat16"}
        changes |= {key: value for key, value in defaults.items() if key not in deployment.model_fields_set}
    if settings.weights.source == "s3":
        changes["target"] = _mounted(deployment.target, "target")
        changes["draft"] = None if deployment.draft is None else _mounted(deployment.draft, "draft")
    return deployment.model_copy(update=changes)


def container_environment(settings: EndpointSettings, config: DeploymentConfig) -> dict[str, str]:
    """Environment of the container; `config` is what `endpoint_deployment` returned."""
    if settings.image.container == "vllm":
        environment = vllm_container_environment(config, target=config.target, draft=config.draft)
    elif settings.image.container == "lmi":
        environment = lmi_container_environment(config, target=config.target, draft=config.draft)
    else:
        environment = to_environment(config)
    too_long = [name for name, value in environment.items() if len(value) > _LONGEST_VALUE]
    if too_long or len(environment) > _MOST_VARIABLES:
        raise ConfigError(
            f"SageMaker takes {_MOST_VARIABLES} variables of {_LONGEST_VALUE} characters each; the deployment config "
            f"makes {len(environment)}, too long: {', '.join(too_long) or 'none'}; shorten these settings"
        )
    return environment


def endpoint_image(settings: EndpointSettings, site: Site, *, repository_url: str, repository_arn: str) -> Image:
    """The image to run: from the stack's own repository, or from AWS's registry of the region."""
    image, tag = settings.image, image_tag(settings)
    url, arn = repository_url, repository_arn
    if image.container != "eagle3":
        repository, account = AWS_CONTAINERS[image.container].repository, registry_account(site.region)
        url = f"{account}.dkr.ecr.{site.region}.{site.dns_suffix}/{repository}"
        arn = f"arn:{site.partition}:ecr:{site.region}:{account}:repository/{repository}"
    return Image(uri=f"{url}@{image.digest}" if tag is None else f"{url}:{tag}", repository_arn=arn)


def _mounted(value: str, key: str) -> str:
    """Path in the container of a folder below the weights' prefix."""
    return mounted(
        value, key, folder=WEIGHTS_FOLDER, source="endpoint.weights.source s3", prefix="endpoint.weights.s3_prefix"
    )

"""An endpoint wired as a stack wires it, with plain names for what other constructs make."""

from __future__ import annotations

from functools import cache

from eagle3.config.deployment import DeploymentConfig
from infra.constructs.endpoint.config import AsyncOutput, EndpointConfig, EndpointConfigProps
from infra.constructs.endpoint.endpoint import Endpoint, EndpointProps, endpoint_name
from infra.constructs.endpoint.model import EndpointModel, EndpointModelProps
from infra.constructs.endpoint.role import BucketFolder, EndpointNetwork, EndpointRole, EndpointRoleProps
from infra.constructs.endpoint.scaling import EndpointScaling, EndpointScalingProps
from infra.constructs.endpoint.security_group import EndpointSecurityGroup, EndpointSecurityGroupProps
from infra.framework import aws
from infra.settings.endpoint import EndpointSettings
from infra.settings.endpoint_checks import check_endpoint
from infra.settings.endpoint_container import container_environment, endpoint_deployment, endpoint_image
from infra.settings.endpoint_facts import concurrent_invocations, is_isolated, target_concurrency
from infra_doubles import SITE, Synthesized, synthesize

NAME = endpoint_name(SITE)
BUCKET = "arn:aws:s3:::models"
DATA_KEY = "arn:aws:kms:us-east-1:123456789012:key/data"
TOPIC = "arn:aws:sns:us-east-1:123456789012:answers"


def build_network(stack, settings: EndpointSettings) -> EndpointNetwork:
    """The container's security group in two subnets."""
    security = EndpointSecurityGroup(
        stack,
        "SecurityGroup",
        EndpointSecurityGroupProps(
            site=SITE,
            vpc_id="vpc-1",
            vpc_cidr="10.0.0.0/16",
            s3_prefix_list_id="pl-1",
            to_internet=settings.weights.source == "hub",
        ),
    )
    return EndpointNetwork(
        vpc_id="vpc-1", subnet_ids=("subnet-a", "subnet-b"), security_group_id=security.security_group_id
    )


def build_endpoint(stack, settings: EndpointSettings, deployment: DeploymentConfig) -> Endpoint:
    """Every construct of an endpoint."""
    check_endpoint(settings, deployment, region=SITE.region, has_nat=settings.weights.source == "hub")
    repository = aws.EcrRepository(
        stack,
        "Repository",
        name=SITE.named("eagle3"),
        image_tag_mutability="IMMUTABLE",
        image_scanning_configuration={"scan_on_push": True},
        encryption_configuration=[aws.EcrRepositoryEncryptionConfiguration(encryption_type="KMS", kms_key=DATA_KEY)],
    )
    group = aws.CloudwatchLogGroup(
        stack, "Logs", name=f"/aws/sagemaker/Endpoints/{NAME}", retention_in_days=365, kms_key_id=DATA_KEY
    )
    network = None if settings.mode == "serverless" else build_network(stack, settings)
    image = endpoint_image(settings, SITE, repository_url=repository.repository_url, repository_arn=repository.arn)
    prefix = settings.weights.s3_prefix
    is_async = settings.mode == "async"
    read = [BucketFolder(bucket_arn=BUCKET, prefix=prefix)] if prefix else []
    if is_async:
        read.append(BucketFolder(bucket_arn=BUCKET, prefix="async/requests/"))
    write = [BucketFolder(bucket_arn=BUCKET, prefix="async/answers/")] if is_async else []
    role = EndpointRole(
        stack,
        "Role",
        EndpointRoleProps(
            site=SITE,
            repository_arn=image.repository_arn,
            log_group_arn=group.arn,
            metrics_namespace=deployment.metrics.namespace,
            data_key_arn=DATA_KEY,
            network=network,
            read=tuple(read),
            write=tuple(write),
            topic_arns=(TOPIC,) if is_async else (),
            topic_key_arn=DATA_KEY if is_async else None,
        ),
    )
    config = endpoint_deployment(settings, deployment, endpoint_name=NAME)
    model = EndpointModel(
        stack,
        "Model",
        EndpointModelProps(
            site=SITE,
            role_arn=role.arn,
            image_uri=image.uri,
            environment=container_environment(settings, config),
            weights_uri=f"s3://models/{prefix}" if prefix else None,
            isolated=is_isolated(settings),
            network=network,
            after=role.ready,
        ),
    )
    output = AsyncOutput(
        answers_uri="s3://models/async/answers/",
        failures_uri="s3://models/async/answers/failed/",
        max_concurrent=concurrent_invocations(settings, deployment),
        success_topic_arn=TOPIC,
        error_topic_arn=TOPIC,
    )
    configuration = EndpointConfig(
        stack,
        "Config",
        EndpointConfigProps(
            site=SITE,
            settings=settings,
            model_name=model.name,
            data_key_arn=DATA_KEY,
            async_output=output if is_async else None,
            capture_uri="s3://models/captured/",
        ),
    )
    endpoint = Endpoint(
        stack,
        "Endpoint",
        EndpointProps(
            site=SITE, settings=settings, config_name=configuration.name, rollback_alarm_names=("errors", "latency")
        ),
    )
    if settings.autoscaling.enabled and settings.mode != "serverless":
        EndpointScaling(
            stack,
            "Scaling",
            EndpointScalingProps(
                site=SITE,
                settings=settings,
                endpoint_name=endpoint.name,
                variant=configuration.variant,
                target_concurrency=target_concurrency(settings, deployment),
                metrics_namespace=deployment.metrics.namespace,
                metrics_endpoint=NAME,
            ),
        )
    return endpoint


@cache
def _synthesized(settings_json: str, deployment_json: str) -> Synthesized:
    settings = EndpointSettings.model_validate_json(settings_json)
    deployment = DeploymentConfig.model_validate_json(deployment_json)
    return synthesize(lambda stack: build_endpoint(stack, settings, deployment))


def endpoint_stack(settings: EndpointSettings | None = None, deployment: DeploymentConfig | None = None) -> Synthesized:
    """The stack of an endpoint, synthesized once for each pair of settings."""
    settings, deployment = settings or EndpointSettings(), deployment or DeploymentConfig()
    return _synthesized(settings.model_dump_json(exclude_unset=True), deployment.model_dump_json(exclude_unset=True))

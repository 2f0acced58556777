"""An endpoint configuration: instances, machine image and timeouts of the one variant, or serverless, or async.

Knows no endpoint and no model but its name. Invariant: no fixed name, and the successor is made first, since a
configuration cannot be changed and one in use cannot be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, Lifecycle, aws
from infra.settings.endpoint import EndpointSettings
from infra.settings.endpoint_facts import machine_image
from infra.site import Site

VARIANT = "AllTraffic"
"""Name of the one variant; a rollout needs it to stay the same."""

# Terraform adds 26 characters, and a name has 63.
_LONGEST_PREFIX = 37


@dataclass(frozen=True, kw_only=True, slots=True)
class AsyncOutput:
    """Where an asynchronous endpoint puts its answers."""

    answers_uri: str
    """Folder in S3 for answers."""
    failures_uri: str
    """Folder in S3 for errors."""
    max_concurrent: int
    """Requests at once per instance."""
    success_topic_arn: str | None = None
    """Topic that hears of each answer."""
    error_topic_arn: str | None = None
    """Topic that hears of each error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointConfigProps:
    """How the model is run."""

    site: Site
    """Names."""
    settings: EndpointSettings
    """The endpoint's section."""
    model_name: str
    """The model."""
    data_key_arn: str
    """Key of volumes, answers and captured data."""
    async_output: AsyncOutput | None = None
    """Given with mode async."""
    capture_uri: str | None = None
    """Folder in S3 for captured prompts and answers; used where the settings ask for it."""


class EndpointConfig(Construct):
    """One configuration with one variant."""

    def __init__(self, scope: Any, id: str, props: EndpointConfigProps) -> None:
        super().__init__(scope, id)
        settings = props.settings
        assert (settings.mode == "async") == (props.async_output is not None), "async_output belongs to mode async"
        prefix = props.site.named("cfg-")
        assert len(prefix) <= _LONGEST_PREFIX, f"name prefix is too long: {prefix}"
        config = aws.SagemakerEndpointConfiguration(
            self,
            "Config",
            name_prefix=prefix,
            kms_key_arn=props.data_key_arn,
            production_variants=[_variant(settings, props.model_name)],
            async_inference_config=None if props.async_output is None else _async(props.async_output, props),
            data_capture_config=_capture(props) if settings.data_capture_percent else None,
            tags={"Name": props.site.named("endpoint")},
            lifecycle=Lifecycle(create_before_destroy=True),
        )
        self.name: str = config.name
        """The configuration."""
        self.variant: str = VARIANT
        """Its variant."""


def _variant(settings: EndpointSettings, model_name: str) -> Any:
    block = aws.SagemakerEndpointConfigurationProductionVariants
    common: dict[str, Any] = {"variant_name": VARIANT, "model_name": model_name, "initial_variant_weight": 1}
    if settings.mode == "serverless":
        serverless = settings.serverless
        return block(
            serverless_config=aws.SagemakerEndpointConfigurationProductionVariantsServerlessConfig(
                memory_size_in_mb=serverless.memory_mb, max_concurrency=serverless.max_concurrency
            ),
            **common,
        )
    ami = machine_image(settings)
    return block(
        instance_type=settings.instance_type,
        initial_instance_count=settings.instance_count,
        inference_ami_version=None if ami is None else ami.version,
        container_startup_health_check_timeout_in_seconds=settings.startup_timeout_s,
        model_data_download_timeout_in_seconds=settings.model_download_timeout_s,
        volume_size_in_gb=settings.volume_gb,
        # Generations differ in length by orders of magnitude: the instance with the fewest requests, not a random one.
        routing_config=[
            aws.SagemakerEndpointConfigurationProductionVariantsRoutingConfig(
                routing_strategy="LEAST_OUTSTANDING_REQUESTS"
            )
        ],
        **common,
    )


def _async(output: AsyncOutput, props: EndpointConfigProps) -> Any:
    notify = None
    if output.success_topic_arn is not None or output.error_topic_arn is not None:
        notify = aws.SagemakerEndpointConfigurationAsyncInferenceConfigOutputConfigNotificationConfig(
            success_topic=output.success_topic_arn, error_topic=output.error_topic_arn
        )
    return aws.SagemakerEndpointConfigurationAsyncInferenceConfig(
        client_config=aws.SagemakerEndpointConfigurationAsyncInferenceConfigClientConfig(
            max_concurrent_invocations_per_instance=output.max_concurrent
        ),
        output_config=aws.SagemakerEndpointConfigurationAsyncInferenceConfigOutputConfig(
            s3_output_path=output.answers_uri,
            s3_failure_path=output.failures_uri,
            kms_key_id=props.data_key_arn,
            notification_config=notify,
        ),
    )


def _capture(props: EndpointConfigProps) -> Any:
    assert props.capture_uri is not None, "captured data needs a folder"
    option = aws.SagemakerEndpointConfigurationDataCaptureConfigCaptureOptions
    return aws.SagemakerEndpointConfigurationDataCaptureConfig(
        enable_capture=True,
        initial_sampling_percentage=props.settings.data_capture_percent,
        destination_s3_uri=props.capture_uri,
        kms_key_id=props.data_key_arn,
        capture_options=[option(capture_mode="Input"), option(capture_mode="Output")],
    )

"""AWS clients for one endpoint: its runtime, which answers, and SageMaker itself, which knows its state.

Made by boto3, or by the SageMaker SDK (`sagemaker-core`) over the same session; both give clients of botocore. Reads
the session's usual places (profile, environment, instance role) and nothing else. Invariant: a question is sent once,
since one that is sent again is billed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from eagle3.errors import ConfigError

CONNECT_TIMEOUT_S = 10.0
SdkName = Literal["boto3", "sagemaker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointClients:
    """What talks to one account and region."""

    runtime: Any
    """Client of `sagemaker-runtime`."""
    control: Any
    """Client of `sagemaker`; used to read only."""
    region: str
    """Such as "us-east-1"."""


def endpoint_clients(
    *, region: str | None, profile: str | None, timeout_s: float, sdk: SdkName, environ: Mapping[str, str]
) -> EndpointClients:
    """The clients; ConfigError names a package or region that is missing, errors of botocore come as they are.

    `environ` is asked for AWS_REGION, which the AWS command line reads and boto3 does not.
    """
    boto3 = _installed("boto3", "ask")
    config = _installed("botocore.config", "ask").Config(
        connect_timeout=CONNECT_TIMEOUT_S, read_timeout=timeout_s, retries={"total_max_attempts": 1}
    )
    session = boto3.Session(profile_name=profile, region_name=region or environ.get("AWS_REGION") or None)
    if session.region_name is None:
        raise ConfigError("no AWS region: give --region, or set AWS_REGION or a region in the profile")
    if sdk == "sagemaker":
        made = _installed("sagemaker.core.utils.utils", "sagemaker").SageMakerClient(
            session=session, region_name=session.region_name, config=config
        )
        return EndpointClients(
            runtime=made.sagemaker_runtime_client, control=made.sagemaker_client, region=session.region_name
        )
    return EndpointClients(
        runtime=session.client("sagemaker-runtime", config=config),
        control=session.client("sagemaker", config=config),
        region=session.region_name,
    )


def _installed(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--endpoint needs {module.partition('.')[0]}, which is not installed; install eagle3-kit[{extra}]"
        ) from error

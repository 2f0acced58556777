"""AWS's own inference containers that can stand in for ours: vLLM and LMI (DJL serving with vLLM), pinned.

Sources, read 2026-11-30: repositories and tags from the list of images of aws/deep-learning-containers; accounts of
the registries from the same list. Knows no settings. Invariant: every tag names its CUDA version, so that the machine
image can be matched to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from eagle3.errors import ConfigError

AwsContainerName = Literal["vllm", "lmi"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AwsContainer:
    """One repository of AWS's deep learning containers."""

    repository: str
    """Name in the registry."""
    tag: str
    """The one that the kit was written for."""


AWS_CONTAINERS: dict[AwsContainerName, AwsContainer] = {
    "vllm": AwsContainer(repository="vllm", tag="0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker-v1.1"),
    "lmi": AwsContainer(repository="djl-inference", tag="0.38.0-lmi29.0.0-cu130"),
}

_DEFAULT_REGIONS = (
    "ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-1 ap-southeast-2 ca-central-1 eu-central-1 eu-north-1 "
    "eu-west-1 eu-west-2 eu-west-3 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2"
)
REGISTRY_ACCOUNTS: dict[str, str] = dict.fromkeys(_DEFAULT_REGIONS.split(), "763104351884") | {
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ca-west-1": "204538143572",
    "cn-north-1": "727897471807",
    "cn-northwest-1": "727897471807",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "us-gov-east-1": "446045086412",
    "us-gov-west-1": "442386744353",
}

_TAG_CUDA = re.compile(r"(?:^|-)cu(\d+)(\d)(?:-|$)")


def registry_account(region: str) -> str:
    """Account that holds AWS's containers for a region; ConfigError where it is not known."""
    account = REGISTRY_ACCOUNTS.get(region)
    if account is None:
        raise ConfigError(
            f"AWS's inference containers have no registry known for {region}; regions: "
            f"{', '.join(sorted(REGISTRY_ACCOUNTS))}; set endpoint.image.container to eagle3"
        )
    return account


def tag_cuda(tag: str) -> str | None:
    """CUDA version that a tag names: "13.0" for "…-cu130-…"; None if it names none."""
    match = _TAG_CUDA.search(tag)
    return f"{match[1]}.{match[2]}" if match else None

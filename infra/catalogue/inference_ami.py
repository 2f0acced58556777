"""Which of SageMaker's GPU machine images runs a container of a CUDA version, and on which instance families.

Sources: SageMaker's API reference, ProductionVariant.InferenceAmiVersion (botocore 1.44.8, read 2026-11-30) for names,
drivers and CUDA versions; NVIDIA's CUDA compatibility guide for the oldest driver of a major version; the developer
guide's page on GPU drivers for families and for the defaults (470 on g5, p4d and p4de: too old for every container
of today, so that the endpoint always names an image). Knows no settings. Invariant: an image that is chosen has a
driver that the container's CUDA starts on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from eagle3.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class InferenceAmi:
    """One machine image of SageMaker's GPU instances."""

    version: str
    """Value of `inference_ami_version`."""
    driver: int
    """NVIDIA driver, major version."""
    cuda: str
    """Newest CUDA version that the driver supports in full."""
    families: frozenset[str]
    """Instance families that have the image."""

    @property
    def cuda_major(self) -> int:
        """Major version of `cuda`."""
        return int(self.cuda.partition(".")[0])


_COMMON = frozenset({"g4dn", "g5", "g6", "g6e", "p4d", "p4de", "p5", "p5e", "p5en"})

# In the order of preference: the one whose CUDA is the container's own major version first.
AMIS: tuple[InferenceAmi, ...] = (
    InferenceAmi(version="al2023-ami-sagemaker-inference-gpu-4-1", driver=580, cuda="13.0", families=_COMMON | {"g7e"}),
    InferenceAmi(version="al2-ami-sagemaker-inference-gpu-3-1", driver=550, cuda="12.4", families=_COMMON),
    InferenceAmi(version="al2-ami-sagemaker-inference-gpu-2-1", driver=535, cuda="12.2", families=_COMMON),
)

OLDEST_DRIVER = {12: 525, 13: 580}
"""CUDA major version to the oldest driver that any release of it starts on (minor version compatibility)."""

CUDA_PATTERN = r"^\d{1,2}\.\d$"
"""How a CUDA version is written: major and minor."""


def choose_ami(cuda: str, family: str) -> InferenceAmi:
    """The machine image for a container with `cuda` ("13.0") on an instance family ("g5"); ConfigError if none."""
    major, oldest = _oldest_driver(cuda)
    fitting = [ami for ami in AMIS if family in ami.families and ami.driver >= oldest]
    if not fitting:
        raise ConfigError(
            f"no machine image of SageMaker has the driver ({oldest} or newer) that CUDA {cuda} needs on instance "
            f"family {family}; families that do: {_families(ami for ami in AMIS if ami.driver >= oldest)}; choose "
            "another endpoint.instance_type or an image of an older CUDA version"
        )
    # A container of CUDA 12 does start on driver 580 as a rule, but AWS runs its own on the image of CUDA 12.
    return next((ami for ami in fitting if ami.cuda_major == major), fitting[0])


def check_ami(version: str, cuda: str, family: str) -> InferenceAmi:
    """The machine image of a name that somebody chose; ConfigError where it does not fit container or instances."""
    found = next((ami for ami in AMIS if ami.version == version), None)
    if found is None:
        raise ConfigError(
            f"endpoint.image.inference_ami_version {version!r} is unknown; known: "
            f"{', '.join(ami.version for ami in AMIS)}; null chooses by endpoint.image.cuda"
        )
    _, oldest = _oldest_driver(cuda)
    if found.driver < oldest:
        raise ConfigError(
            f"{version} has driver {found.driver}, CUDA {cuda} needs {oldest} or newer: the container would die before "
            f"its first line of log; choose {choose_ami(cuda, family).version} or an image of an older CUDA version"
        )
    if family not in found.families:
        raise ConfigError(
            f"{version} does not exist on instance family {family}; it does on {_families([found])}; choose "
            f"{choose_ami(cuda, family).version}"
        )
    return found


def _oldest_driver(cuda: str) -> tuple[int, int]:
    major = int(cuda.partition(".")[0]) if re.match(CUDA_PATTERN, cuda) else 0
    if major not in OLDEST_DRIVER:
        raise ConfigError(
            f"endpoint.image.cuda must be a CUDA version that a machine image of SageMaker supports: "
            f"{' or '.join(f'{known}.x' for known in OLDEST_DRIVER)}; got {cuda!r}"
        )
    return major, OLDEST_DRIVER[major]


def _families(amis: Iterable[InferenceAmi]) -> str:
    return ", ".join(sorted({family for ami in amis for family in ami.families}))

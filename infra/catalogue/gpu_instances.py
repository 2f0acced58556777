"""EC2 instance types with NVIDIA GPUs, and where they are offered.

Knows no prices and no SageMaker types. Read from EC2's DescribeInstanceTypes and DescribeInstanceTypeOfferings, as
the data files of moto 5.2.5 carry them (read 2026-11-30); tests/infra/test_gpu_instances.py compares every row with
the installed release. Invariant: every type of the table is offered in at least one region of the table.

Zone letters belong to the account that asked: in regions older than a few years AWS deals the letters anew for each
account. So a type's regions and its number of zones hold everywhere, a zone's letter may not.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from eagle3.errors import ConfigError

READ_ON = "2026-11-30"
SOURCE = "EC2 DescribeInstanceTypes and DescribeInstanceTypeOfferings, in the data files of moto 5.2.5"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuInstance:
    """One instance type."""

    name: str
    """Such as "p4d.24xlarge"."""
    gpu: str
    """Name of the GPU, such as "A100"."""
    gpus: int
    """GPUs of an instance."""
    gpu_memory_mib: int
    """Memory of one GPU."""
    vcpus: int
    """Virtual CPUs."""
    memory_mib: int
    """Memory of the instance."""
    nvme_gb: int
    """Local NVMe storage, all disks together."""
    efa_interfaces: int
    """Elastic Fabric Adapters; 0 where there is none."""

    @property
    def family(self) -> str:
        """Such as "p4d"."""
        return self.name.partition(".")[0]


# name: GPU, GPUs, MiB of a GPU, vCPUs, MiB, NVMe GB, EFA interfaces
_ROWS: dict[str, tuple[str, int, int, int, int, int, int]] = {
    "p4d.24xlarge": ("A100", 8, 40_960, 96, 1_179_648, 8_000, 4),
    "p4de.24xlarge": ("A100", 8, 81_920, 96, 1_179_648, 8_000, 4),
    "p5.4xlarge": ("H100", 1, 81_920, 16, 262_144, 3_800, 1),
    "p5.48xlarge": ("H100", 8, 81_920, 192, 2_097_152, 30_400, 32),
    "g5.xlarge": ("A10G", 1, 22_888, 4, 16_384, 250, 0),
    "g5.2xlarge": ("A10G", 1, 22_888, 8, 32_768, 450, 0),
    "g5.4xlarge": ("A10G", 1, 22_888, 16, 65_536, 600, 0),
    "g5.8xlarge": ("A10G", 1, 22_888, 32, 131_072, 900, 1),
    "g5.12xlarge": ("A10G", 4, 22_888, 48, 196_608, 3_800, 1),
    "g5.16xlarge": ("A10G", 1, 22_888, 64, 262_144, 1_900, 1),
    "g5.24xlarge": ("A10G", 4, 22_888, 96, 393_216, 3_800, 1),
    "g5.48xlarge": ("A10G", 8, 22_888, 192, 786_432, 7_600, 1),
    "g6.xlarge": ("L4", 1, 22_888, 4, 16_384, 250, 0),
    "g6.2xlarge": ("L4", 1, 22_888, 8, 32_768, 450, 0),
    "g6.4xlarge": ("L4", 1, 22_888, 16, 65_536, 600, 0),
    "g6.8xlarge": ("L4", 1, 22_888, 32, 131_072, 900, 1),
    "g6.12xlarge": ("L4", 4, 22_888, 48, 196_608, 3_760, 1),
    "g6.16xlarge": ("L4", 1, 22_888, 64, 262_144, 1_880, 1),
    "g6.24xlarge": ("L4", 4, 22_888, 96, 393_216, 3_760, 1),
    "g6.48xlarge": ("L4", 8, 22_888, 192, 786_432, 7_520, 1),
    "g6e.xlarge": ("L40S", 1, 45_776, 4, 32_768, 250, 0),
    "g6e.2xlarge": ("L40S", 1, 45_776, 8, 65_536, 450, 0),
    "g6e.4xlarge": ("L40S", 1, 45_776, 16, 131_072, 600, 0),
    "g6e.8xlarge": ("L40S", 1, 45_776, 32, 262_144, 900, 1),
    "g6e.12xlarge": ("L40S", 4, 45_776, 48, 393_216, 3_800, 1),
    "g6e.16xlarge": ("L40S", 1, 45_776, 64, 524_288, 1_900, 1),
    "g6e.24xlarge": ("L40S", 4, 45_776, 96, 786_432, 3_800, 2),
    "g6e.48xlarge": ("L40S", 8, 45_776, 192, 1_572_864, 7_600, 4),
}

GPU_INSTANCES: Mapping[str, GpuInstance] = MappingProxyType(
    {
        name: GpuInstance(
            name=name,
            gpu=row[0],
            gpus=row[1],
            gpu_memory_mib=row[2],
            vcpus=row[3],
            memory_mib=row[4],
            nvme_gb=row[5],
            efa_interfaces=row[6],
        )
        for name, row in _ROWS.items()
    }
)

# region: family, or a type where its family's sizes differ: letters of the zones
_OFFERED: dict[str, dict[str, str]] = {
    "ap-east-1": {"g5": "ab"},
    "ap-northeast-1": {"p4d": "ac", "p4de": "ac", "p5": "ac", "p5.4xlarge": "c", "g5": "ac", "g6": "ac", "g6e": "ac"},
    "ap-northeast-2": {"p4d": "bd", "p5": "a", "p5.4xlarge": "", "g5": "acd", "g6": "acd", "g6e": "ab"},
    "ap-northeast-3": {"g6e": "bc"},
    "ap-south-1": {"p4d": "abc", "p5": "abc", "g5": "ab", "g6": "ab", "g6e": "ab"},
    "ap-south-2": {"g6": "ab", "g6e": "ab"},
    "ap-southeast-1": {"p4de": "bc"},
    "ap-southeast-2": {"p4d": "bc", "p5": "abc", "p5.4xlarge": "a", "g5": "bc", "g6": "abc"},
    "ap-southeast-3": {"p5": "a", "g5": "ac"},
    "ap-southeast-5": {"g6": "ab"},
    "ca-central-1": {"p4d": "ab", "p5": "d", "p5.4xlarge": "", "g5": "ab", "g6": "abd"},
    "eu-central-1": {"p4d": "abc", "p4de": "ac", "g5": "abc", "g6": "abc", "g6e": "abc"},
    "eu-central-2": {"g6": "bc"},
    "eu-north-1": {"p4d": "c", "p5": "abc", "g5": "bc", "g6": "ab", "g6e": "ab"},
    "eu-south-2": {"g5": "abc", "g6": "abc", "g6e": "bc"},
    "eu-west-1": {"p4d": "c", "g5": "abc"},
    "eu-west-2": {"p4d": "ab", "p5": "abc", "g5": "ab", "g6": "abc"},
    "eu-west-3": {"g5": "abc", "g6": "bc"},
    "il-central-1": {"p4de": "abc", "g5": "abc"},
    "me-central-1": {"g5": "ab", "g6": "ab", "g6e": "ab"},
    "sa-east-1": {"p4d": "ac", "p5": "c", "g5": "ab", "g6": "ab"},
    "us-east-1": {"p4d": "abcd", "p4de": "bc", "p5": "abcdef", "g5": "abcdf", "g6": "abcdf", "g6e": "abcd"},
    "us-east-2": {"p4d": "abc", "p5": "abc", "g5": "abc", "g6": "abc", "g6e": "abc"},
    "us-west-1": {"p5": "ab", "p5.4xlarge": ""},
    "us-west-2": {"p4d": "abcd", "p4de": "abc", "p5": "abcd", "g5": "abc", "g6": "abcd", "g6e": "abcd"},
}


def gpu_instance(name: str) -> GpuInstance:
    """A type of the table; ConfigError names the nearest where there is none."""
    if name not in GPU_INSTANCES:
        near = difflib.get_close_matches(name, GPU_INSTANCES, n=3)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise ConfigError(
            f"{name} is no GPU instance type that the kit knows{hint}; known families: "
            f"{', '.join(sorted({instance.family for instance in GPU_INSTANCES.values()}))}"
        )
    return GPU_INSTANCES[name]


def offered_zones(name: str, region: str) -> tuple[str, ...]:
    """Zones of a region that offer a type; none where the region does not have it."""
    families = _OFFERED.get(region, {})
    letters = families.get(name, families.get(gpu_instance(name).family, ""))
    return tuple(f"{region}{letter}" for letter in letters)


def regions_offering(name: str) -> tuple[str, ...]:
    """Regions that offer a type."""
    return tuple(region for region in sorted(_OFFERED) if offered_zones(name, region))

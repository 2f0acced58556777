"""Instance types that the kit runs SageMaker endpoints on: sizes, GPUs, disks and regions.

Facts of the EC2 types behind the `ml.` names, as DescribeInstanceTypes and DescribeInstanceTypeOfferings gave them in
the data of moto 5.2.5, read on 2026-11-30; x86-64 types only, since the images are built for nothing else. SageMaker
may be behind EC2 in a region, and a quota of its own applies; a type missing here is missing in the region for sure.
Knows no settings. Invariant: every name is an instance type of SageMaker's API.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from eagle3.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointInstance:
    """One instance type."""

    name: str
    """Such as "ml.g5.xlarge"."""
    vcpus: int
    """Threads."""
    memory_gib: int
    """Main memory."""
    gpus: int
    """How many GPUs; 0 for a CPU instance."""
    gpu: str | None
    """Such as "A10G"."""
    gpu_memory_mib: int
    """Memory of one GPU."""
    local_gb: int
    """NVMe disks of the instance together; 0: SageMaker attaches a volume, whose size may be set."""
    regions: frozenset[str]
    """Where EC2 has the type."""

    @property
    def family(self) -> str:
        """Such as "g5"."""
        return self.name.split(".")[1]

    @property
    def has_local_disk(self) -> bool:
        """Whether weights lie on the instance's own NVMe disks; no volume size may be given then."""
        return self.local_gb > 0


def endpoint_instance(name: str) -> EndpointInstance:
    """The instance type of a name; ConfigError names the nearest."""
    found = INSTANCES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, INSTANCES, n=3, cutoff=0.0)
        raise ConfigError(
            f"endpoint.instance_type {name!r} is not one that the kit knows; nearest: {', '.join(near)}; families: "
            f"{', '.join(dict.fromkeys(instance.family for instance in INSTANCES.values()))}"
        )
    return found


def check_region(instance: EndpointInstance, region: str) -> None:
    """Refuse an instance type that the region does not have."""
    if region not in instance.regions:
        others = [other.name for other in INSTANCES.values() if region in other.regions and other.gpus == instance.gpus]
        instead = f"types there with as many GPUs: {', '.join(others)}" if others else "no type with as many GPUs there"
        raise ConfigError(
            f"{instance.name} does not exist in {region}; regions that have it: {', '.join(sorted(instance.regions))}; "
            f"{instead}"
        )


_G5 = (
    "ap-east-1 ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-2 ap-southeast-3 ca-central-1 eu-central-1 "
    "eu-north-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 sa-east-1 us-east-1 us-east-2 "
    "us-west-2"
)
_G6 = (
    "ap-northeast-1 ap-northeast-2 ap-south-1 ap-south-2 ap-southeast-2 ap-southeast-5 ca-central-1 eu-central-1 "
    "eu-central-2 eu-north-1 eu-south-2 eu-west-2 eu-west-3 me-central-1 sa-east-1 us-east-1 us-east-2 us-west-2"
)
_G6E = (
    "ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 eu-central-1 eu-north-1 eu-south-2 "
    "me-central-1 us-east-1 us-east-2 us-west-2"
)
_P4D = (
    "ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-2 ca-central-1 eu-central-1 eu-north-1 eu-west-1 eu-west-2 "
    "sa-east-1 us-east-1 us-east-2 us-west-2"
)
_P4DE = "ap-northeast-1 ap-southeast-1 eu-central-1 il-central-1 us-east-1 us-west-2"
_P5_ONE_GPU = (
    "ap-northeast-1 ap-south-1 ap-southeast-2 ap-southeast-3 eu-north-1 eu-west-2 sa-east-1 us-east-1 us-east-2 "
    "us-west-2"
)
_P5 = f"{_P5_ONE_GPU} ap-northeast-2 ca-central-1 us-west-1"
_ALL_7I = (
    "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 "
    "ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ca-central-1 eu-central-1 eu-central-2 eu-north-1 "
    "eu-south-1 eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 sa-east-1 us-east-1 us-east-2 "
    "us-west-1 us-west-2"
)
_C7I = f"{_ALL_7I} ca-west-1"
_ALL_6I = (
    "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2 ap-southeast-1 "
    "ap-southeast-2 ap-southeast-5 ca-central-1 ca-west-1 eu-central-1 eu-north-1 eu-south-1 eu-west-1 eu-west-2 "
    "eu-west-3 il-central-1 me-south-1 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2"
)
_M6I = f"{_ALL_6I} ap-southeast-3 eu-central-2 me-central-1"

# Size: vCPUs, GiB, GPUs, GB of NVMe.
_Sizes = dict[str, tuple[int, int, int, int]]
_G5_SIZES: _Sizes = {
    "xlarge": (4, 16, 1, 250),
    "2xlarge": (8, 32, 1, 450),
    "4xlarge": (16, 64, 1, 600),
    "8xlarge": (32, 128, 1, 900),
    "12xlarge": (48, 192, 4, 3800),
    "16xlarge": (64, 256, 1, 1900),
    "24xlarge": (96, 384, 4, 3800),
    "48xlarge": (192, 768, 8, 7600),
}
_G6_SIZES: _Sizes = _G5_SIZES | {
    "12xlarge": (48, 192, 4, 3760),
    "16xlarge": (64, 256, 1, 1880),
    "24xlarge": (96, 384, 4, 3760),
    "48xlarge": (192, 768, 8, 7520),
}
_G6E_SIZES: _Sizes = {size: (vcpus, 2 * memory, gpus, disk) for size, (vcpus, memory, gpus, disk) in _G5_SIZES.items()}
_CPU_VCPUS = {
    "large": 2,
    "xlarge": 4,
    "2xlarge": 8,
    "4xlarge": 16,
    "8xlarge": 32,
    "12xlarge": 48,
    "16xlarge": 64,
    "24xlarge": 96,
}


def _cpu(gib_per_vcpu: int, largest: str, vcpus: int) -> _Sizes:
    return {size: (count, gib_per_vcpu * count, 0, 0) for size, count in (_CPU_VCPUS | {largest: vcpus}).items()}


# Family: sizes, GPU, MiB of one GPU, regions.
_FAMILIES: tuple[tuple[str, _Sizes, str | None, int, str], ...] = (
    ("g5", _G5_SIZES, "A10G", 22888, _G5),
    ("g6", _G6_SIZES, "L4", 22888, _G6),
    ("g6e", _G6E_SIZES, "L40S", 45776, _G6E),
    ("p4d", {"24xlarge": (96, 1152, 8, 8000)}, "A100", 40960, _P4D),
    ("p4de", {"24xlarge": (96, 1152, 8, 8000)}, "A100", 81920, _P4DE),
    ("p5", {"4xlarge": (16, 256, 1, 3800)}, "H100", 81920, _P5_ONE_GPU),
    ("p5", {"48xlarge": (192, 2048, 8, 30400)}, "H100", 81920, _P5),
    ("c7i", _cpu(2, "48xlarge", 192), None, 0, _C7I),
    ("c6i", _cpu(2, "32xlarge", 128), None, 0, _ALL_6I),
    ("m7i", _cpu(4, "48xlarge", 192), None, 0, _ALL_7I),
    ("m6i", _cpu(4, "32xlarge", 128), None, 0, _M6I),
)

INSTANCES: dict[str, EndpointInstance] = {
    name: EndpointInstance(
        name=name,
        vcpus=vcpus,
        memory_gib=memory,
        gpus=gpus,
        gpu=gpu,
        gpu_memory_mib=gpu_memory,
        local_gb=disk,
        regions=frozenset(regions.split()),
    )
    for family, sizes, gpu, gpu_memory, regions in _FAMILIES
    for size, (vcpus, memory, gpus, disk) in sizes.items()
    for name in (f"ml.{family}.{size}",)
}

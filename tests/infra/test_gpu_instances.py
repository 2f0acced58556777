"""The catalogue of GPU instances says what EC2 says."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import moto.ec2
import pytest

from eagle3.errors import ConfigError
from infra.catalogue.gpu_instances import GPU_INSTANCES, gpu_instance, offered_zones, regions_offering

_DATA = Path(moto.ec2.__file__).parent / "resources"


@cache
def _read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def test_every_row_is_what_ec2_describes():
    """GPUs, their memory, CPUs, memory, local disks and fabric adapters are those of DescribeInstanceTypes."""
    described = _read(_DATA / "instance_types.json.gz")
    for name, row in GPU_INSTANCES.items():
        facts = described[name]
        [gpu] = facts["GpuInfo"]["Gpus"]
        assert (row.gpu, row.gpus, row.gpu_memory_mib) == (gpu["Name"], gpu["Count"], gpu["MemoryInfo"]["SizeInMiB"])
        assert row.vcpus == facts["VCpuInfo"]["DefaultVCpus"]
        assert row.memory_mib == facts["MemoryInfo"]["SizeInMiB"]
        assert row.nvme_gb == facts["InstanceStorageInfo"]["TotalSizeInGB"]
        assert row.efa_interfaces == facts["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0), name
        assert {"spot", "on-demand"} <= set(facts["SupportedUsageClasses"])


def test_zones_are_those_that_ec2_offers():
    """In every region, each type is offered in the catalogue's zones and in no other."""
    for file in sorted((_DATA / "instance_type_offerings" / "availability-zone").iterdir()):
        region = file.name.removesuffix(".json.gz")
        offers = {(offer["InstanceType"], offer["Location"]) for offer in _read(file)}
        for name in GPU_INSTANCES:
            assert set(offered_zones(name, region)) == {zone for kind, zone in offers if kind == name}, (name, region)


def test_every_type_is_offered_somewhere():
    """A type that no region offers would be an error in the table."""
    assert all(regions_offering(name) for name in GPU_INSTANCES)
    assert "us-east-1" in regions_offering("p4de.24xlarge")


def test_unknown_type_names_the_nearest():
    """A slip of the pen is one error with the nearest names; a known type is found."""
    with pytest.raises(ConfigError, match=r"p4d\.24xlarge"):
        gpu_instance("p4d.24xlage")
    assert gpu_instance("p4d.24xlarge").family == "p4d"


def test_region_without_a_type_offers_no_zone():
    """eu-west-1 has p4d and no p4de."""
    assert offered_zones("p4d.24xlarge", "eu-west-1") == ("eu-west-1c",)
    assert offered_zones("p4de.24xlarge", "eu-west-1") == ()

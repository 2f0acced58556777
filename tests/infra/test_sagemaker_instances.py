"""The catalogue of SageMaker's instance types against the data that it was made from."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files

import botocore.session
import pytest

from eagle3.errors import ConfigError
from infra.catalogue.sagemaker_instances import INSTANCES, check_region, endpoint_instance


@cache
def facts(name):
    """One of moto's tables of EC2."""
    return json.loads(gzip.decompress((files("moto") / "ec2" / "resources" / f"{name}.json.gz").read_bytes()))


@cache
def regions():
    """Region to the types that EC2 offers there."""
    folder = files("moto") / "ec2" / "resources" / "instance_type_offerings" / "region"
    names = [entry.name.removesuffix(".json.gz") for entry in folder.iterdir()]
    table = {name: facts(f"instance_type_offerings/region/{name}") for name in names}
    return {name: {offer["InstanceType"] for offer in offers} for name, offers in table.items()}


@pytest.mark.parametrize("name", INSTANCES)
def test_sizes_are_those_of_ec2(name):
    """vCPUs, memory, GPUs and disks are what EC2 says of the type."""
    instance, fact = INSTANCES[name], facts("instance_types")[name.removeprefix("ml.")]
    gpu = (fact.get("GpuInfo") or {"Gpus": [{}]})["Gpus"][0]
    assert instance.vcpus == fact["VCpuInfo"]["DefaultVCpus"]
    assert instance.memory_gib * 1024 == fact["MemoryInfo"]["SizeInMiB"]
    assert instance.gpus == gpu.get("Count", 0)
    assert instance.gpu == gpu.get("Name")
    assert instance.gpu_memory_mib == gpu.get("MemoryInfo", {}).get("SizeInMiB", 0)
    assert instance.local_gb == fact.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    assert fact["ProcessorInfo"]["SupportedArchitectures"] == ["x86_64"]


@pytest.mark.parametrize("name", INSTANCES)
def test_regions_are_those_of_ec2(name):
    """A type is listed in exactly the regions that offer it."""
    offered = {region for region, types in regions().items() if name.removeprefix("ml.") in types}
    assert INSTANCES[name].regions == offered


def test_sagemaker_knows_every_type():
    """Every name is one of SageMaker's API."""
    shape = botocore.session.get_session().get_service_model("sagemaker").shape_for("ProductionVariantInstanceType")
    assert set(INSTANCES) <= set(shape.enum)


def test_types_of_the_stacks_are_there():
    """The types that the stacks run on by default, in the region that they run in by default."""
    small, medium = endpoint_instance("ml.g5.xlarge"), endpoint_instance("ml.g5.12xlarge")
    assert (small.family, small.gpus, medium.gpus) == ("g5", 1, 4)
    for instance in (small, medium):
        check_region(instance, "us-east-1")


def test_unknown_type_is_refused():
    """The error names the nearest type."""
    with pytest.raises(ConfigError, match=r"ml\.g5\.xlarg'.*ml\.g5\.xlarge"):
        endpoint_instance("ml.g5.xlarg")


def test_region_without_the_type_is_refused():
    """The error names regions that have the type, and what the region has instead."""
    with pytest.raises(ConfigError, match=r"ml\.p4de\.24xlarge does not exist in eu-west-1.*us-east-1.*ml\.p4d"):
        check_region(endpoint_instance("ml.p4de.24xlarge"), "eu-west-1")
    with pytest.raises(ConfigError, match="no type with as many GPUs"):
        check_region(endpoint_instance("ml.p4de.24xlarge"), "me-south-1")

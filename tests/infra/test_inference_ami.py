"""Image → CUDA → driver → machine image → instance family."""

from __future__ import annotations

import re

import botocore.session
import pytest

from eagle3.errors import ConfigError
from infra.catalogue.aws_containers import AWS_CONTAINERS, REGISTRY_ACCOUNTS, registry_account, tag_cuda
from infra.catalogue.inference_ami import AMIS, check_ami, choose_ami
from infra.catalogue.sagemaker_instances import INSTANCES


def shape(name):
    """One shape of SageMaker's API."""
    return botocore.session.get_session().get_service_model("sagemaker").shape_for(name)


def test_versions_are_those_of_the_api():
    """Every machine image is a value of `InferenceAmiVersion`, with the driver and CUDA that the API says."""
    assert {ami.version for ami in AMIS} <= set(shape("ProductionVariantInferenceAmiVersion").enum)
    text = re.sub(r"<[^>]+>|\s+", " ", shape("ProductionVariant").members["InferenceAmiVersion"].documentation)
    for ami in AMIS:
        said = text.split(f" {ami.version} ")[1].split(" al2")[0]
        assert f"driver version: {ami.driver}" in said
        assert f"CUDA version: {ami.cuda}" in said


@pytest.mark.parametrize("family", ["g5", "g6", "g6e", "p4d", "p4de", "p5"])
def test_cuda_13_takes_driver_580(family):
    """D24: an image of CUDA 13 runs on gpu-4-1, on every GPU family of the catalogue."""
    assert family in {instance.family for instance in INSTANCES.values()}
    ami = choose_ami("13.0", family)
    assert (ami.version, ami.driver) == ("al2023-ami-sagemaker-inference-gpu-4-1", 580)


def test_cuda_12_takes_driver_550():
    """An image of CUDA 12 runs on the machine image of CUDA 12, minor versions above the driver's included."""
    assert choose_ami("12.4", "g5").version == "al2-ami-sagemaker-inference-gpu-3-1"
    assert choose_ami("12.9", "p4d").version == "al2-ami-sagemaker-inference-gpu-3-1"


def test_cuda_that_no_driver_supports_is_refused():
    """D24: the error names the versions that there are."""
    for cuda in ("11.8", "14.0", "13", ""):
        with pytest.raises(ConfigError, match=r"12\.x or 13\.x"):
            choose_ami(cuda, "g5")


def test_family_without_the_machine_image_is_refused():
    """D24: a family without driver 580 cannot run CUDA 13; the error names families that can."""
    with pytest.raises(ConfigError, match=r"580 or newer.*family p3.*g5"):
        choose_ami("13.0", "p3")


def test_chosen_machine_image_is_checked():
    """D24: a machine image that somebody sets must fit as well; one with a newer driver does."""
    assert check_ami("al2-ami-sagemaker-inference-gpu-2-1", "12.2", "g5").driver == 535
    assert check_ami("al2023-ami-sagemaker-inference-gpu-4-1", "12.9", "g5").driver == 580
    with pytest.raises(ConfigError, match=r"driver 550, CUDA 13\.0 needs 580.*gpu-4-1"):
        check_ami("al2-ami-sagemaker-inference-gpu-3-1", "13.0", "g5")
    with pytest.raises(ConfigError, match="unknown; known"):
        check_ami("al2-ami-sagemaker-inference-gpu-9", "13.0", "g5")
    with pytest.raises(ConfigError, match="does not exist on instance family g7e"):
        check_ami("al2-ami-sagemaker-inference-gpu-3-1", "12.4", "g7e")


def test_every_pinned_container_has_a_machine_image():
    """AWS's containers are pinned by tags that name their CUDA version, and each runs on the default instances."""
    for container in AWS_CONTAINERS.values():
        assert "latest" not in container.tag
        cuda = tag_cuda(container.tag)
        assert cuda is not None
        assert choose_ami(cuda, "g5")
    assert tag_cuda("0.1.0-cpu") is None
    assert tag_cuda("0.36.0-lmi20.0.0-cu128") == "12.8"


def test_registry_of_a_region():
    """A region's registry belongs to one account; an unknown region is refused with those that are known."""
    assert registry_account("us-east-1") == "763104351884"
    assert all(re.fullmatch(r"\d{12}", account) for account in REGISTRY_ACCOUNTS.values())
    with pytest.raises(ConfigError, match=r"us-west-9.*us-west-2"):
        registry_account("us-west-9")

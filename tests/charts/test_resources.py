"""Resources of the chart eagle3, sized from model, cache and GPUs, and what is refused because it cannot work."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import fails, merged, render

VLLM: dict[str, Any] = {
    "config": {"target": "/models/target", "device": "cuda", "engine": {"name": "vllm"}},
    "model": {"weightsGiB": 16},
}


def pod(values: dict[str, Any]) -> dict[str, Any]:
    """The server's pod."""
    spec: dict[str, Any] = render(values).only("Deployment")["spec"]["template"]["spec"]
    return spec


def resources(values: dict[str, Any]) -> dict[str, Any]:
    """The server's resources."""
    found: dict[str, Any] = pod(values)["containers"][0]["resources"]
    return found


def mebibytes(quantity: str) -> float:
    """A quantity in MiB."""
    return float(quantity[:-2]) * {"Mi": 1, "Gi": 1024}[quantity[-2:]]


def test_memory_on_cpus_holds_weights_and_cache() -> None:
    """Memory grows by what weights and cache grow, and the limit is the request, so that no neighbour is squeezed."""
    small, large = (resources({"model": {"weightsGiB": 1, "cacheGiB": cache}}) for cache in (1, 9))
    assert mebibytes(large["requests"]["memory"]) - mebibytes(small["requests"]["memory"]) == 8 * 1024
    assert mebibytes(small["requests"]["memory"]) == (2 + 1 + 1) * 1024
    assert small["limits"]["memory"] == small["requests"]["memory"]


def test_no_limit_on_cpu_time() -> None:
    """CPU cores are asked for, not limited."""
    assert resources({"model": {"cpus": 1.5}})["requests"]["cpu"] == "1.5"
    assert "cpu" not in resources({})["limits"]


def test_disk_holds_image_and_weights() -> None:
    """D11: ephemeral storage is asked for: image and scratch always, the weights too where they lie in the pod."""
    without = resources(VLLM)["requests"]["ephemeral-storage"]
    copied = {"modelCache": {"kind": "ephemeral", "source": "s3://models/llama"}}
    within = resources(merged(VLLM, copied))["requests"]["ephemeral-storage"]
    assert mebibytes(without) >= 20 * 1024
    assert mebibytes(within) - mebibytes(without) >= 16 * 1024
    on_node = merged(VLLM, copied, {"modelCache": {"ephemeral": {"hostPath": "/mnt/k8s-disks/0/models"}}})
    assert resources(on_node)["requests"]["ephemeral-storage"] == without
    assert mebibytes(resources({"model": {"imageGiB": 9}})["requests"]["ephemeral-storage"]) == (9 + 2) * 1024


@pytest.mark.parametrize("values", [{}, VLLM])
def test_what_the_pod_writes_fits_its_disk(values: dict[str, Any]) -> None:
    """D11: the sizes of the emptyDirs on disk add up to no more than the limit, so a full one evicts nobody."""
    whole = merged(values, {"modelCache": {"kind": "ephemeral", "source": "s3://models/llama"}})
    volumes = [volume["emptyDir"] for volume in pod(whole)["volumes"] if "emptyDir" in volume]
    disk = sum(mebibytes(volume["sizeLimit"]) for volume in volumes if "medium" not in volume)
    assert disk <= mebibytes(resources(whole)["limits"]["ephemeral-storage"])


def test_given_resources_win() -> None:
    """Requests and limits of one's own stand as they are; GPUs are added where they are missing."""
    given = {"requests": {"cpu": "8", "memory": "40Gi"}, "limits": {"memory": "48Gi"}}
    assert resources({"resources": given}) == given
    found = resources({"config": VLLM["config"], "resources": given})
    assert found["requests"] == {**given["requests"], "nvidia.com/gpu": "1"}
    assert found["limits"] == {**given["limits"], "nvidia.com/gpu": "1"}


def test_a_model_of_unknown_size_is_refused() -> None:
    """D11: a target of one's own needs its size or resources said in full; the embedded one needs neither."""
    message = fails({"config": {"target": "/models/target"}})
    assert "config.target is /models/target" in message
    assert "set model.weightsGiB" in message
    assert resources({"config": {"target": "/models/target"}, "model": {"weightsGiB": 3}})


def test_gpus_follow_the_config() -> None:
    """The number of GPUs is that of the shards unless it is given; requests and limits agree, as Kubernetes asks."""
    four = merged(VLLM, {"config": {"engine": {"tensor_parallel": 4}}})
    for values, count in ((VLLM, "1"), (four, "4"), (merged(four, {"gpus": {"count": 8}}), "8")):
        found = resources(values)
        assert found["requests"]["nvidia.com/gpu"] == found["limits"]["nvidia.com/gpu"] == count
    renamed = resources(merged(VLLM, {"gpus": {"resource": "nvidia.com/mig-3g.20gb"}}))
    assert renamed["limits"]["nvidia.com/mig-3g.20gb"] == "1"


def test_more_shards_than_gpus_are_refused() -> None:
    """tensor_parallel above the GPUs of a pod is refused with both numbers."""
    message = fails(merged(VLLM, {"config": {"engine": {"tensor_parallel": 4}}, "gpus": {"count": 2}}))
    assert "config.engine.tensor_parallel is 4" in message
    assert "gpus.count 2" in message
    assert "set gpus.count to 4" in message
    assert "tensor_parallel is 2" in fails({"config": {"engine": {"tensor_parallel": 2}}})


def test_device_and_gpus_agree() -> None:
    """cuda without GPUs and GPUs without cuda are refused."""
    assert "config.device is cuda and gpus.count is 0" in fails(merged(VLLM, {"gpus": {"count": 0}}))
    assert "gpus.count is 1 and config.device is cpu" in fails({"gpus": {"count": 1}})


def test_a_model_larger_than_the_gpus_is_refused() -> None:
    """Where the memory of a GPU is given, weights and cache must fit; the refusal gives the sum."""
    assert resources(merged(VLLM, {"gpus": {"memoryGiB": 24}, "model": {"cacheGiB": 4}}))
    message = fails(merged(VLLM, {"gpus": {"memoryGiB": 24}, "model": {"cacheGiB": 8}}))
    assert "weights 16 + cache 8 = 24 GiB" in message
    assert "21.6 GiB" in message


def test_gpus_that_share_a_model_get_shared_memory() -> None:
    """More than one GPU brings a /dev/shm of the pod's own, counted in its memory; one GPU does not."""
    one, four = VLLM, merged(VLLM, {"config": {"engine": {"tensor_parallel": 4}}})
    assert "shm" not in {volume["name"] for volume in pod(one)["volumes"]}
    spec = pod(four)
    volume = next(volume for volume in spec["volumes"] if volume["name"] == "shm")
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "16384Mi"}
    assert {"name": "shm", "mountPath": "/dev/shm"} in spec["containers"][0]["volumeMounts"]
    larger = resources(merged(four, {"sharedMemory": {"size": "32Gi"}}))
    difference = mebibytes(larger["limits"]["memory"]) - mebibytes(resources(four)["limits"]["memory"])
    assert difference == 16 * 1024


def test_host_memory_of_a_gpu_pod_fits_the_smallest_instance() -> None:
    """An 8B model on one GPU asks for less than a g5.xlarge (16 GiB) can give: weights only pass through."""
    assert mebibytes(resources(VLLM)["requests"]["memory"]) <= 13 * 1024

"""Where the weights lie in the chart eagle3: in the image, on the node, on a claim, or in a bucket."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import fails, merged, render

MODEL: dict[str, Any] = {"config": {"target": "/models/target"}, "model": {"weightsGiB": 16}}


def values(**cache: Any) -> dict[str, Any]:
    """Values of a model of one's own with a cache."""
    return merged(MODEL, {"modelCache": cache})


def pod(given: dict[str, Any]) -> dict[str, Any]:
    """The server's pod."""
    spec: dict[str, Any] = render(given).only("Deployment")["spec"]["template"]["spec"]
    return spec


def volume(given: dict[str, Any]) -> dict[str, Any]:
    """The volume of the weights."""
    return next(volume for volume in pod(given)["volumes"] if volume["name"] == "models")


def test_no_cache_mounts_nothing() -> None:
    """Weights in the image need no volume and no copy."""
    spec = pod(MODEL)
    assert "initContainers" not in spec
    assert "models" not in {volume["name"] for volume in spec["volumes"]}


def test_the_nodes_disk_is_filled_before_the_server_starts() -> None:
    """An init container copies the source to where the server reads it, read-only; the disk holds the weights."""
    given = values(kind="ephemeral", source="s3://models/llama", region="eu-west-1", mountPath="/weights")
    (copy,) = pod(given)["initContainers"]
    assert copy["command"] + copy["args"] == [
        "aws",
        "s3",
        "sync",
        "--only-show-errors",
        "s3://models/llama",
        "/weights",
    ]
    assert {"name": "AWS_REGION", "value": "eu-west-1"} in copy["env"]
    (server,) = pod(given)["containers"]
    mounts = {mount["name"]: mount for mount in server["volumeMounts"]}
    assert mounts["models"] == {"name": "models", "mountPath": "/weights", "readOnly": True}
    assert volume(given)["emptyDir"] == {"sizeLimit": "18Gi"}


def test_a_directory_of_the_node_must_exist() -> None:
    """A host path takes the place of the emptyDir; it is not made by the kubelet, which would make it root's."""
    given = values(kind="ephemeral", source="s3://models/llama", ephemeral={"hostPath": "/mnt/k8s-disks/0/models"})
    assert volume(given)["hostPath"] == {"path": "/mnt/k8s-disks/0/models", "type": "Directory"}
    limited = merged(given, {"modelCache": {"ephemeral": {"sizeLimit": "20Gi"}}})
    assert "leave one of them out" in fails(limited)


def test_a_claim_is_ones_own_or_made() -> None:
    """A claim that exists is used as it is; else one is made that holds the weights and outlives the release."""
    own = values(kind="pvc", pvc={"existingClaim": "weights"})
    assert volume(own)["persistentVolumeClaim"] == {"claimName": "weights"}
    assert not render(own).all("PersistentVolumeClaim")
    claim = render(values(kind="pvc", pvc={"storageClassName": "efs"})).only("PersistentVolumeClaim")
    assert volume(values(kind="pvc"))["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    assert claim["spec"]["resources"] == {"requests": {"storage": "18Gi"}}
    assert claim["spec"]["storageClassName"] == "efs"
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "initContainers" not in pod(values(kind="pvc"))
    assert "initContainers" in pod(values(kind="pvc", source="s3://models/llama"))


def test_a_claim_of_one_node_serves_one_pod() -> None:
    """ReadWriteOnce is taken for a single pod that is replaced in place, and refused for more."""
    once = {"kind": "pvc", "pvc": {"accessMode": "ReadWriteOnce"}}
    alone = {"rollout": {"maxSurge": 0, "maxUnavailable": 1}}
    assert render(merged(values(**once), alone)).only("PersistentVolumeClaim")
    for more in ({}, {**alone, "replicas": 2}, {**alone, "autoscaling": {"kind": "hpa"}}):
        assert "accessMode is ReadWriteOnce" in fails(merged(values(**once), more))


def test_a_bucket_is_read_where_it_lies() -> None:
    """With s3 nothing is copied: the driver mounts the prefix read-only with the pod's rights, as the pod's user."""
    given = values(kind="s3", source="s3://models/llama/8b/", region="eu-west-1")
    rendered = render(given)
    persistent, claim = rendered.only("PersistentVolume"), rendered.only("PersistentVolumeClaim")
    csi = persistent["spec"]["csi"]
    assert csi["driver"] == "s3.csi.aws.com"
    assert csi["volumeAttributes"] == {"bucketName": "models", "authenticationSource": "pod"}
    assert set(persistent["spec"]["mountOptions"]) == {
        "read-only",
        "allow-other",
        "uid=10001",
        "gid=10001",
        "region eu-west-1",
        "prefix llama/8b/",
    }
    assert "initContainers" not in pod(given)
    assert claim["spec"]["volumeName"] == persistent["metadata"]["name"]
    assert persistent["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
    assert claim["spec"]["storageClassName"] == persistent["spec"]["storageClassName"] == ""
    assert volume(given)["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}


def test_another_bucket_is_another_volume() -> None:
    """Volumes cannot change, so another source or namespace gets another name, and the same one keeps it."""

    def name(source: str, **options: Any) -> str:
        return str(render(values(kind="s3", source=source), **options).only("PersistentVolume")["metadata"]["name"])

    assert name("s3://models/a") == name("s3://models/a")
    assert len({name("s3://models/a"), name("s3://models/b"), name("s3://models/a", namespace="other")}) == 3
    whole = render(values(kind="s3", source="s3://models")).only("PersistentVolume")["spec"]
    assert not any(option.startswith("prefix") for option in whole["mountOptions"])


@pytest.mark.parametrize("kind", ["ephemeral", "s3"])
def test_a_cache_that_nothing_fills_is_refused(kind: str) -> None:
    """A cache without a source stays empty, and a source without a cache is never read."""
    assert "modelCache.source is empty" in fails(values(kind=kind))
    assert "modelCache.kind is none" in fails(values(source="s3://models/llama"))
    assert "/modelCache/source" in fails(values(kind=kind, source="models/llama"))


def test_the_copys_image_keeps_its_meaning() -> None:
    """An image without tag or digest, or with latest, is refused; a private registry's is taken."""
    given = values(kind="ephemeral", source="s3://models/llama")
    for image in ("amazon/aws-cli", "amazon/aws-cli:latest", "registry:5000/aws-cli"):
        assert "image" in fails(merged(given, {"modelCache": {"copy": {"image": image}}}))
    for image in ("registry:5000/aws-cli:2.1", "amazon/aws-cli@sha256:" + "0" * 64):
        (copy,) = pod(merged(given, {"modelCache": {"copy": {"image": image}}}))["initContainers"]
        assert copy["image"] == image

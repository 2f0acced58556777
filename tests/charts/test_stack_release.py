"""What the synthesized stack large hands to Helm is a release that renders and that its own pools can run."""

from __future__ import annotations

import json
import re

import pytest

from chart_doubles import lint, render
from eagle3.errors import ConfigError
from infra.kubernetes.components import COPY_IMAGE
from stack_doubles import _EDGE, stack

TARGET_GROUP = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/eagle3/0123456789abcdef"
MODEL = (
    "large.deployment={target: llama, draft: draft, device: cuda, dtype: bfloat16, engine: {tensor_parallel: 8}};"
    "large.workload={chart_archive: ARCHIVE, weights_prefix: models/llama-70b, weights_gib: 135, cache_gib: 100}"
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A file that stands for the packaged chart; synthesis only names it."""
    path = tmp_path_factory.mktemp("chart") / "eagle3-0.1.0.tgz"
    path.write_bytes(b"archive")
    return path


def release(found):
    """Values of the release and the limits of the pool, with text in the place of what Terraform will know."""

    def document(ending):
        [one] = [item for item in found.all("aws_s3_object") if item["key"].endswith(ending)]
        text = re.sub(r"\$\{aws_lb_target_group\.[^}]*\}", TARGET_GROUP, one["content"])
        return json.loads(re.sub(r"\$\{[^}]*\}", "known-later", text))

    [pool] = document("node-pools.json")["items"]
    return document("values/eagle3.json"), pool["spec"]


@pytest.mark.parametrize("more", ["", _EDGE], ids=["inside", "edge"])
@pytest.mark.parametrize("model", [MODEL, "large.workload={chart_archive: ARCHIVE}"], ids=["own weights", "embedded"])
def test_release_renders_and_fits_its_pool(archive, model, more):
    """The values lint and render; all replicas together need no more GPUs than the pool may have."""
    found = stack("large", "dev", f"{model.replace('ARCHIVE', str(archive))};{more}")
    values, pool = release(found)
    assert lint(values) == []
    rendered = render(values)
    [container] = rendered.only("Deployment", "eagle3")["spec"]["template"]["spec"]["containers"]
    gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
    replicas = rendered.only("ScaledObject")["spec"]["maxReplicaCount"]
    assert 1 <= replicas * gpus <= int(pool["limits"]["nvidia.com/gpu"])
    assert bool(rendered.all("TargetGroupBinding")) is bool(more)
    assert "replicas" not in rendered.only("Deployment", "eagle3")["spec"]


def test_weights_come_from_the_bucket_by_an_image_of_the_registry(archive):
    """Without NAT the copy's image is the mirrored one, and the config names the folders that it fills."""
    values, _ = release(stack("large", "dev", MODEL.replace("ARCHIVE", str(archive))))
    rendered = render(values)
    pod = rendered.only("Deployment", "eagle3")["spec"]["template"]["spec"]
    images = [container["image"] for container in pod["initContainers"]]
    assert any(image.endswith(f"known-later:{COPY_IMAGE.tag}") for image in images), images
    assert values["config"]["target"] == "/models/llama"
    assert values["config"]["draft"] == "/models/draft"
    assert pod["terminationGracePeriodSeconds"] <= 110  # spot nodes


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ("large.workload={chart_archive: /no/such.tgz}", "no file"),
        ("large.workload={chart_archive: ARCHIVE, min_replicas: 50}", "50 replicas"),
        ("large.workload={chart_archive: ARCHIVE, weights_prefix: models/a, weights_gib: 3}", "embedded"),
        ("large.workload={weights_prefix: models/a}", "weights_gib"),
        ("large.workload={image_tag: latest}", "latest"),
        ("large.workload={min_replicas: 3, max_replicas: 2}", "max_replicas"),
        ("large.deployment={device: cuda, engine: {tensor_parallel: 16}}", "tensor_parallel"),
    ],
)
def test_release_that_cannot_run_is_refused(archive, overrides, words):
    """Each mistake ends synthesis with one error that names it."""
    with pytest.raises(ConfigError, match=words):
        stack("large", "dev", overrides.replace("ARCHIVE", str(archive)))


@pytest.mark.parametrize("target", ["/models/llama", "llama/", "."])
def test_folder_of_weights_is_found_however_it_is_written(archive, target):
    """A path in the container, a trailing slash and the prefix itself name the same folders as for SageMaker."""
    overrides = MODEL.replace("ARCHIVE", str(archive)).replace("target: llama", f"target: '{target}'")
    values, _ = release(stack("large", "dev", overrides))
    assert values["config"]["target"] == ("/models" if target == "." else "/models/llama")


@pytest.mark.parametrize("target", ["/elsewhere/llama", "../llama"])
def test_folder_outside_of_the_weights_is_refused(archive, target):
    """What cannot lie below the prefix ends synthesis with the prefix named."""
    overrides = MODEL.replace("ARCHIVE", str(archive)).replace("target: llama", f"target: '{target}'")
    with pytest.raises(ConfigError, match="weights_prefix"):
        stack("large", "dev", overrides)

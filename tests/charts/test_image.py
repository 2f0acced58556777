"""The image that the chart eagle3 runs: one that keeps its meaning, the same in every pod."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import CHARTS, fails, load_yaml, pod_spec, render

DIGEST = "sha256:" + "0123456789abcdef" * 4


def image(values: dict[str, Any]) -> str:
    """The server's image."""
    container = render(values).only("Deployment")["spec"]["template"]["spec"]["containers"][0]
    return str(container["image"])


def test_the_default_tag_follows_version_and_device() -> None:
    """Without a tag it is the chart's appVersion, for CPUs or for CUDA."""
    version = load_yaml((CHARTS / "eagle3" / "Chart.yaml").read_text(encoding="utf-8"))[0]["appVersion"]
    assert image({}) == f"eagle3:{version}-cpu"
    assert image({"config": {"device": "cuda"}}) == f"eagle3:{version}-cuda13.0"


def test_a_digest_wins() -> None:
    """With a digest the tag is left out; without one the tag is taken."""
    named = {"repository": "1.dkr.ecr.eu-west-1.amazonaws.com/eagle3/runtime", "tag": "1.2.3"}
    assert image({"image": named}) == f"{named['repository']}:1.2.3"
    assert image({"image": {**named, "digest": DIGEST}}) == f"{named['repository']}@{DIGEST}"


def test_latest_is_refused() -> None:
    """The tag latest is refused, unless a digest says what it is."""
    assert "has the tag latest" in fails({"image": {"tag": "latest"}})
    assert image({"image": {"tag": "latest", "digest": DIGEST}}) == f"eagle3@{DIGEST}"


@pytest.mark.parametrize("digest", ["sha256:abc", "0" * 64, "sha512:" + "0" * 64])
def test_a_digest_that_is_none_is_refused(digest: str) -> None:
    """A digest is sha256 and 64 digits."""
    assert "/image/digest" in fails({"image": {"digest": digest}})


def test_every_pod_runs_the_same_image() -> None:
    """Pre-pull and test use the server's image, with the server's credentials."""
    rendered = render({"image": {"digest": DIGEST, "pullSecrets": ["registry"]}, "prePull": {"enabled": True}})
    specs = [spec for item in rendered.all() if (spec := pod_spec(item)) is not None]
    assert len(specs) == 3
    assert {spec["containers"][0]["image"] for spec in specs} == {f"eagle3@{DIGEST}"}
    assert all(spec["imagePullSecrets"] == [{"name": "registry"}] for spec in specs)


def test_pre_pull_is_off_until_asked_for() -> None:
    """Without prePull there is no DaemonSet; with it, its pods ask for no GPU."""
    assert not render().all("DaemonSet")
    values = {"config": {"device": "cuda"}, "prePull": {"enabled": True}}
    container = render(values).only("DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert "nvidia.com/gpu" not in str(container["resources"])

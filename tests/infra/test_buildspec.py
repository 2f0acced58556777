"""The scripts of mirror and bootstrap, read as YAML, checked by bash and run on stand-in programs."""

from __future__ import annotations

import hashlib
import subprocess

import pytest
import yaml

from bootstrap_doubles import COMPONENTS, BuildMachine, addresses, script_of
from infra.kubernetes.bootstrap_buildspec import bootstrap_buildspec
from infra.kubernetes.buildspec import buildspec
from infra.kubernetes.components import components, mirrored_images
from infra.kubernetes.mirror_buildspec import mirror_buildspec, repository_variable
from infra.settings.components import Chart

SPECS = {
    "mirror": mirror_buildspec(COMPONENTS),
    "bootstrap": bootstrap_buildspec(COMPONENTS, pools=["gpu"], own_chart=True),
}


def mirrored(machine, settings, **more):
    variables = {repository_variable(name): url for name, url in addresses(settings).items()}
    return machine.run(mirror_buildspec(settings), **variables, **more)


def ready(machine, settings, own_chart=True):
    """A bucket as mirror and plan leave it."""
    result = mirrored(machine, settings)
    assert result.returncode == 0, result.stderr
    for component in components(settings):
        machine.put(f"values/{component.release}.json", {})
    for name in ("node-classes", "node-pools"):
        machine.put(f"manifests/{name}.json", {})
    if own_chart:
        machine.put("charts/eagle3-0.1.0.tgz", "chart")
    machine.put("plan.json", "{}")
    (machine.folder / "calls").unlink()


@pytest.fixture
def machine(tmp_path):
    return BuildMachine(tmp_path)


@pytest.mark.parametrize("name", SPECS)
def test_buildspec_is_yaml_that_codebuild_takes(name):
    """Version 0.2, bash, one build command, and nothing that Terraform would replace."""
    spec = yaml.safe_load(SPECS[name])
    assert spec["version"] == 0.2
    assert spec["env"] == {"shell": "bash"}
    assert len(spec["phases"]["build"]["commands"]) == 1
    assert "${" not in SPECS[name]


@pytest.mark.parametrize("name", SPECS)
def test_script_is_shell(name):
    """Bash parses the script, which stops at its first error."""
    done = subprocess.run(["bash", "-n"], input=script_of(SPECS[name]), text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "set -euo pipefail" in script_of(SPECS[name])


def test_terraform_signs_are_refused():
    """A script with an interpolation of Terraform's would be changed on its way to CodeBuild."""
    with pytest.raises(AssertionError, match="Terraform would replace"):
        buildspec("echo ${HOME}")
    assert buildspec("echo $HOME")


def test_mirror_brings_everything_once(machine):
    """The first run fetches tools, charts and images of what is on; the second finds them and fetches nothing."""
    settings = machine.settings()
    first = mirrored(machine, settings)
    assert first.returncode == 0, first.stderr
    calls = machine.calls
    for component in components(settings):
        wanted = component.chart.enabled and component.source is not None
        assert (f"put charts/{component.archive}" in calls) == wanted, component.release
    for image in mirrored_images(settings):
        source = f"{image.source}@{image.digest}" if image.digest else f"{image.source}:{image.tag}"
        assert f"copy {source} {addresses()[image.repository]}:{image.tag}" in calls
    assert "put tools/kubectl-1.35.8" in calls
    second = mirrored(machine, settings)
    assert second.returncode == 0, second.stderr
    assert machine.calls == calls


def test_mirror_refuses_a_tool_that_changed(machine):
    """A download that is not what its SHA-256 says is neither run nor kept."""
    settings = machine.settings()
    (machine.downloads / "kubectl").write_text("something else", encoding="utf-8")
    result = mirrored(machine, settings)
    assert result.returncode != 0
    assert "put tools/kubectl-1.35.8" not in machine.calls


def test_mirror_refuses_an_image_that_changed(machine):
    """A tag in the registry that is not the digest asked for fails the build, with what to do."""
    url = addresses()["karpenter/controller"]
    tag = COMPONENTS.karpenter.version
    (machine.registry / f"{url}:{tag}".replace("/", "_")).write_text("sha256:other", encoding="utf-8")
    result = mirrored(machine, machine.settings())
    assert result.returncode != 0
    assert "delete it from the registry" in result.stderr


@pytest.mark.parametrize("good", [True, False])
def test_pinned_chart_is_checked(machine, good):
    """A chart with a SHA-256 is kept only if it has it."""
    text = b"keda\n" if good else b"keda, changed\n"
    chart = Chart(version="2.21.0", sha256=hashlib.sha256(text).hexdigest())
    result = mirrored(machine, machine.settings(keda=chart))
    assert (result.returncode == 0) == good
    assert ("put charts/keda-2.21.0.tgz" in machine.calls) == good


def test_bootstrap_installs_in_order(machine):
    """CRDs, then Karpenter, then the pools' manifests, then what needs GPU nodes, the kit's own chart last."""
    settings = machine.settings()
    ready(machine, settings)
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True))
    assert result.returncode == 0, result.stderr
    calls = [call for call in machine.calls if call.startswith(("upgrade", "kubectl apply"))]
    names = [call.split()[1] if call.startswith("upgrade") else call.split()[-1] for call in calls]
    assert names == [
        "karpenter-crd",
        "karpenter",
        "node-classes.json",
        "node-pools.json",
        "nvidia-device-plugin",
        "dcgm-exporter",
        "keda",
        "eagle3",
    ]
    for call in calls:
        if call.startswith("upgrade"):
            assert {"--install", "--atomic", "--wait", "--timeout"} <= set(call.split())
        else:
            assert "--server-side" in call


def test_bootstrap_takes_away_what_is_off(machine):
    """A component that is switched off is uninstalled; a pool that left the settings is deleted, the others stay."""
    settings = machine.settings()
    ready(machine, settings)
    machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True))
    calls = machine.calls
    assert any(call.startswith("uninstall aws-load-balancer-controller") for call in calls)
    assert "kubectl delete nodepool.karpenter.sh/old --wait=false" in calls
    assert not any("delete" in call and call.endswith("/gpu --wait=false") for call in calls)


def test_bootstrap_leaves_a_chart_alone_that_it_does_not_have(machine):
    """Without the kit's own chart in the bucket, a release made by hand is neither changed nor removed."""
    settings = machine.settings()
    ready(machine, settings, own_chart=False)
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=False))
    assert result.returncode == 0, result.stderr
    assert not any("eagle3 " in call for call in machine.calls if call.startswith(("upgrade", "uninstall")))


def test_bootstrap_stops_at_a_release_that_fails(machine):
    """A release that does not become ready fails the build, and what comes after it is not touched."""
    settings = machine.settings()
    ready(machine, settings)
    (machine.folder / "fail-karpenter").touch()
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True))
    assert result.returncode != 0
    assert "karpenter is not ready" in result.stderr
    assert not any("nvidia-device-plugin" in call for call in machine.calls)


def test_bootstrap_says_that_it_may_not_enter(machine):
    """Without an access entry it waits, then fails and says where to look; nothing is installed."""
    settings = machine.settings()
    ready(machine, settings)
    (machine.folder / "no-access").touch()
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True))
    assert result.returncode != 0
    assert "does not let this role in" in result.stderr
    assert not any(call.startswith("upgrade") for call in machine.calls)


def test_bootstrap_starts_over_when_the_plan_changes(machine):
    """A plan that changes under way is carried out as well, in the same build."""
    settings = machine.settings()
    ready(machine, settings)
    (machine.folder / "change-the-plan-once").touch()
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True))
    assert result.returncode == 0, result.stderr
    assert sum(call.startswith("upgrade keda ") for call in machine.calls) == 2


def test_bootstrap_refuses_a_tool_that_changed(machine):
    """A tool in the bucket that is not what its SHA-256 says is not run."""
    settings = machine.settings()
    ready(machine, settings)
    machine.put("tools/kubectl-1.35.8", "#!/bin/bash\necho owned\n")
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True))
    assert result.returncode != 0
    assert not any(call.startswith(("upgrade", "kubectl")) for call in machine.calls)


def test_removal_drains_the_nodes(machine):
    """ACTION remove takes the workload and the pools away and waits until Karpenter's nodes are gone."""
    settings = machine.settings()
    ready(machine, settings)
    (machine.folder / "claims").write_text("nodeclaim.karpenter.sh/gpu-abc\n", encoding="utf-8")
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True), ACTION="remove")
    assert result.returncode == 0, result.stderr
    calls = machine.calls
    assert calls.index("kubectl delete nodepools.karpenter.sh --all --wait=false") < calls.index(
        "kubectl delete ec2nodeclasses.karpenter.k8s.aws --all"
    )
    assert any(call.startswith("uninstall eagle3") for call in calls)
    assert "waiting for nodes to drain (1): nodeclaim.karpenter.sh/gpu-abc" in result.stdout


def test_removal_before_anything_was_installed(machine):
    """Without Karpenter's CRDs there is nothing to drain."""
    settings = machine.settings()
    ready(machine, settings)
    (machine.folder / "no-crd").touch()
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True), ACTION="remove")
    assert result.returncode == 0, result.stderr
    assert not any("nodepools" in call for call in machine.calls)


def test_unknown_action_is_refused(machine):
    """A slip in ACTION changes nothing and says what is allowed."""
    settings = machine.settings()
    ready(machine, settings)
    result = machine.run(bootstrap_buildspec(settings, pools=["gpu"], own_chart=True), ACTION="destroy")
    assert result.returncode != 0
    assert "ACTION is install or remove; got destroy" in result.stderr

"""Every combination of features renders, lints, and is what Kubernetes and the operators' CRDs take."""

from __future__ import annotations

import copy
import functools

import pytest

from chart_doubles import lint, pod_spec, render, values_file
from chart_matrix import MATRIX
from infra.settings.pools import PoolSettings
from kubernetes_doubles import NEWEST, OLDEST, core_findings, custom_findings, missing_models

NODE_POOLS = values_file("values-example.yaml", chart="eagle3-nodepools")
needs_models = pytest.mark.skipif(missing_models() is not None, reason=str(missing_models()))


@functools.cache
def custom_resources():
    """Custom resources of the whole matrix and of the node pools, by the rendering that they are from."""
    found = {name: core_findings(render(values).all(), NEWEST)[1] for name, values in MATRIX.items()}
    return found | {"node pools": render(NODE_POOLS, chart="eagle3-nodepools").all()}


@pytest.mark.parametrize("name", MATRIX)
def test_lint_finds_nothing(name):
    """Helm's linter, strict, finds nothing in any combination."""
    assert lint(MATRIX[name]) == []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", MATRIX)
def test_kubernetes_takes_every_object(name, version):
    """Rendered for the oldest and the newest version, every object of Kubernetes' own kinds fits its schema exactly."""
    found, custom = core_findings(render(MATRIX[name], kube_version=version).all(), version)
    assert found == []
    kinds = {(item["apiVersion"], item["kind"]) for item in custom}
    groups = {api.split("/")[0] for api, _ in kinds}
    assert not any(group in ("v1", "apps", "batch", "autoscaling", "policy") for group in groups), kinds


@needs_models
def test_operators_take_every_custom_resource():
    """D2: ScaledObject, HTTPRoute, monitors, rules, NodePool and EC2NodeClass fit the schemas of their CRDs exactly."""
    resources = [item for items in custom_resources().values() for item in items]
    assert custom_findings(resources) == []
    assert {item["kind"] for item in resources} >= {
        "EC2NodeClass",
        "HTTPRoute",
        "LeaderWorkerSet",
        "NodePool",
        "PodMonitor",
        "PrometheusRule",
        "ScaledObject",
        "ServiceMonitor",
        "TargetGroupBinding",
        "TriggerAuthentication",
    }


MISTAKES = {
    "keda metrics-api": ("ScaledObject", ("spec", "minReplicas"), 1, "minReplicas"),
    "canary": ("HTTPRoute", ("spec", "rules", 0, "backendRefs", 0, "weight"), "95", "weight"),
    "monitored by service": ("ServiceMonitor", ("spec", "endpoints", 0, "interval"), "ten", "interval"),
    "monitored by pod": ("PrometheusRule", ("spec", "groups", 0, "rules", 0, "expression"), "1", "expression"),
    "edge target group": ("TargetGroupBinding", ("spec", "serviceRef", "portName"), "http", "portName"),
    "leader worker set": ("LeaderWorkerSet", ("spec", "leaderWorkerTemplate", "restartPolicy"), "Never", "Never"),
    "node pools": ("NodePool", ("spec", "disruption", "consolidateAfter"), "60 s", "consolidateAfter"),
}


@needs_models
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_custom_resources_are_found(name):
    """An unknown key, a wrong type and a wrong form are found, so that an empty list of findings means something."""
    kind, path, value, message = MISTAKES[name]
    item = copy.deepcopy(next(item for item in custom_resources()[name] if item["kind"] == kind))
    place = item
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    [finding, *_] = custom_findings([item])
    assert message in finding


def test_mistakes_in_kubernetes_own_kinds_are_found():
    """An unknown key and a wrong type in a Deployment are found by both versions' schemas."""
    deployment = render().only("Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    service = render().only("Service")
    service["spec"]["ports"][0]["port"] = "eighty"
    for version in (OLDEST, NEWEST):
        assert len(core_findings([deployment, service], version)[0]) == 2


def test_unknown_kinds_are_found():
    """A kind that nothing knows is a finding, not a pass."""
    if missing_models() is not None:
        pytest.skip(missing_models())
    item = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
    assert custom_findings([item]) == ["Thing/a: no schema is known for example.com/v1 Thing"]


@pytest.mark.parametrize("name", MATRIX)
def test_objects_are_distinct_and_in_the_namespace(name):
    """No two objects share kind and name; all are in the release's namespace, and none is called vllm (D16)."""
    rendered = render(MATRIX[name])
    objects = rendered.named()
    assert all(item["metadata"].get("namespace") in ("eagle3", None) for item in objects.values())
    cluster_wide = {item["kind"] for item in objects.values() if "namespace" not in item["metadata"]}
    assert cluster_wide <= {"PersistentVolume"}
    assert "Service/vllm" not in objects


@pytest.mark.parametrize("name", MATRIX)
def test_two_releases_do_not_meet(name):
    """Two releases in one namespace share no object and select no pod of each other, fixed names apart."""
    values = {key: value for key, value in MATRIX[name].items() if key != "fullnameOverride"}
    mine, other = (render(values, release=release) for release in ("blue", "green"))
    assert set(mine.named()) & set(other.named()) <= {"ServiceAccount/runtime"}
    for workload in mine.all("Deployment"):
        selector = workload["spec"]["selector"]["matchLabels"]
        for theirs in other.all("Deployment"):
            assert not selector.items() <= theirs["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("name", [name for name in MATRIX if name.startswith("values-")])
def test_values_files_fit_their_nodes(name):
    """D9, D11: pods of the values files fit the instance that they are for, and tolerate the taint of the pools."""
    pods = [spec for item in render(MATRIX[name]).all("Deployment") if (spec := pod_spec(item))]
    [spec] = pods
    requests = spec["containers"][0]["resources"]["requests"]
    sizes = {"values-cpu": (4, 8 * 1024, 20 * 1024), "values-g5": (4, 16 * 1024, 200 * 1024)}
    # vCPUs, MiB of memory, MiB of disk; a p4d's NVMe disks hold 8 TB, its root disk as much as the pools give at least.
    cpus, memory, disk = sizes.get(name.split(" ")[0], (96, 1_179_648, PoolSettings().disk_gib * 1024))
    assert float(requests["cpu"]) <= cpus - 0.5
    assert int(requests["memory"].removesuffix("Mi")) <= memory * 0.85
    assert int(requests["ephemeral-storage"].removesuffix("Mi")) <= disk * 0.9
    if name != "values-cpu":
        taint = PoolSettings().taints[0]
        assert any(
            one["key"] == taint.key and one.get("effect") in (taint.effect, None) and one["operator"] == "Exists"
            for one in spec["tolerations"]
        )

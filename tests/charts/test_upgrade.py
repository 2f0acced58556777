"""Upgrading from a released chart keeps names, selectors and every field that the API server refuses to change."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from chart_doubles import Rendered, load_yaml, merged, render
from chart_matrix import MATRIX
from upgrade_contract import FIELDS, contract

PREVIOUS = Path(__file__).parent / "previous"
RECORDS = [
    pytest.param(one, id=f"{path.stem}-{index}-{one['chart']}")
    for path in sorted(PREVIOUS.glob("*.yaml"))
    for index, one in enumerate(load_yaml(path.read_text(encoding="utf-8"))[0])
]


@pytest.mark.parametrize("one", RECORDS)
def test_upgrade_keeps_what_cannot_change(one):
    """Values of an older version render in this one, with every object of then and its unchangeable fields."""
    now = contract(render(one["values"], chart=one["chart"], upgrade=True))
    assert {key: now.get(key) for key in one["objects"]} == one["objects"]


def test_there_is_a_record_to_hold_to():
    """The first version is recorded, with workloads, a Service, a claim and node pools."""
    assert (PREVIOUS / "0.1.0.yaml").is_file()
    kinds = {key.partition("/")[0] for param in RECORDS for key in param.values[0]["objects"]}
    assert kinds >= {"Deployment", "DaemonSet", "Service", "PersistentVolumeClaim", "ScaledObject", "NodePool"}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Deployment", {"selector": {"matchLabels": {"tier": "gpu"}}}),
        ("Service", {"clusterIP": "None"}),
        ("PersistentVolumeClaim", {"accessModes": ["ReadWriteOnce"]}),
    ],
)
def test_what_breaks_an_upgrade_is_found(kind, change):
    """A changed selector, a Service made headless and a claim's other access mode show in the contract."""
    rendered = render(MATRIX["weights on a claim"])
    objects = [
        merged(item, {"spec": change}) if item["kind"] == kind else copy.deepcopy(item) for item in rendered.objects
    ]
    assert contract(Rendered(texts=rendered.texts, objects=tuple(objects))) != contract(rendered)


def test_growing_a_claim_breaks_nothing():
    """What may change is not in the contract: the size of a claim, replicas, the image."""
    small = merged(MATRIX["weights on a claim"], {"modelCache": {"pvc": {"size": "50Gi"}}})
    large = merged(small, {"modelCache": {"pvc": {"size": "100Gi"}}, "replicas": 3, "image": {"tag": "0.2.0-cuda"}})
    assert contract(render(small)) == contract(render(large))


@pytest.mark.parametrize("name", MATRIX)
def test_selectors_do_not_depend_on_the_version(name):
    """Selectors carry name, instance and component alone; version and chart stand on labels only."""
    for item in render(MATRIX[name]).all():
        selector = item["spec"].get("selector") if "spec" in item else None
        if item["kind"] in ("Deployment", "DaemonSet", "Service", "PodDisruptionBudget") and selector:
            labels = selector.get("matchLabels", selector)
            assert set(labels) <= {f"app.kubernetes.io/{key}" for key in ("name", "instance", "component")}
            assert "app.kubernetes.io/version" in item["metadata"]["labels"]


@pytest.mark.parametrize("name", MATRIX)
def test_upgrade_renders_what_an_install_renders(name):
    """No template asks whether it is an upgrade: what is rendered depends on the values alone."""
    assert render(MATRIX[name], upgrade=True).objects == render(MATRIX[name]).objects


def test_no_unchangeable_kind_is_forgotten():
    """Every workload kind that the charts render has its fields in the contract."""
    rendered = {item["kind"] for values in MATRIX.values() for item in render(values).objects}
    assert rendered & {"Deployment", "DaemonSet", "StatefulSet", "Job", "Service", "PersistentVolumeClaim"} <= set(
        FIELDS
    )

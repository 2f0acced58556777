"""The objects that every release of the chart eagle3 has, and how they hang together."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import CHARTS, fails, load_yaml, pod_spec, render
from infra.catalogue.eks_calendar import EKS_VERSIONS

GPUS = {"config": {"target": "/models/target", "device": "cuda"}, "model": {"weightsGiB": 16}}
SELECTORS = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}


def test_no_values_give_the_embedded_model_on_cpus() -> None:
    """Without values there is one pod that needs neither GPU nor any API beyond Kubernetes' own."""
    rendered = render()
    deployment = rendered.only("Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert all(
        "nvidia" not in key for key in deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    )
    groups = {item["apiVersion"].rpartition("/")[0] for item in rendered.all()}
    assert groups <= {"", "apps", "policy", "networking.k8s.io"}


def test_the_service_selects_the_pods_of_the_deployment() -> None:
    """The Service's selector is the Deployment's, its pods carry it, and the port has a name that the pod gives."""
    rendered = render({"podLabels": {"team": "search"}})
    template = rendered.only("Deployment")["spec"]["template"]
    service = rendered.only("Service")
    assert service["spec"]["selector"] == rendered.only("Deployment")["spec"]["selector"]["matchLabels"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"]["team"] == "search"
    assert service["spec"]["ports"][0]["targetPort"] == template["spec"]["containers"][0]["ports"][0]["name"]


@pytest.mark.parametrize("values", [{}, {"prePull": {"enabled": True}}, {"nameOverride": "other"}, GPUS])
def test_selectors_carry_name_instance_and_component_alone(values: dict[str, Any]) -> None:
    """Selectors cannot change, so no version, chart or user's label is in them; other components are not selected."""
    for item in render(values).all():
        if item["kind"] in ("Deployment", "DaemonSet"):
            assert set(item["spec"]["selector"]["matchLabels"]) == SELECTORS


def test_every_object_carries_the_common_labels() -> None:
    """Name, instance, component, version, manager, part and chart are on every object."""
    wanted = {
        *SELECTORS,
        *(f"app.kubernetes.io/{key}" for key in ("version", "managed-by", "part-of")),
        "helm.sh/chart",
    }
    for item in render({"prePull": {"enabled": True}}).all():
        assert wanted <= set(item["metadata"]["labels"]), item["kind"]


def test_own_labels_of_the_chart_cannot_be_replaced() -> None:
    """A user's label that the chart sets itself is refused."""
    for place in ("podLabels", "service.labels"):
        head, _, tail = place.partition(".")
        labels: dict[str, Any] = {"app.kubernetes.io/component": "mine"}
        assert f"{place} sets app.kubernetes.io/component" in fails({head: {tail: labels} if tail else labels})


def test_autoscaling_leaves_the_number_of_pods_alone() -> None:
    """D21: where something scales the pods, the Deployment says no number, so an upgrade resets nothing."""
    keda = {"autoscaling": {"kind": "keda", "prometheus": {"serverAddress": "http://prometheus:9090"}}}
    assert "replicas" not in render({**keda, "replicas": 7}).only("Deployment")["spec"]
    assert "replicas" not in render({"autoscaling": {"kind": "hpa"}}).only("Deployment")["spec"]
    assert render({"replicas": 7}).only("Deployment")["spec"]["replicas"] == 7


def test_no_service_links_and_no_service_called_vllm() -> None:
    """D16: a Service called vllm would set VLLM_PORT in vLLM's pod: links are off, and the name is refused."""
    for item in render({"prePull": {"enabled": True}}).all():
        if (spec := pod_spec(item)) is not None:
            assert spec["enableServiceLinks"] is False
    assert "would be called vllm" in fails({"fullnameOverride": "vllm"})
    assert "would be called vllm" in fails({"nameOverride": "vllm"}, release="vllm")
    assert render(release="vllm").only("Service")["metadata"]["name"] == "vllm-eagle3"


def test_pods_with_gpus_tolerate_their_taint() -> None:
    """D9: a pod with GPUs tolerates the taint of GPU nodes besides the tolerations given; one without does not."""
    own = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    gpus = render({**GPUS, "tolerations": [own], "prePull": {"enabled": True}})
    for item in (gpus.only("Deployment"), gpus.only("DaemonSet"), gpus.only("Pod")):
        spec = pod_spec(item)
        assert spec is not None
        assert {(taint["key"], taint["operator"]) for taint in spec["tolerations"]} == {
            ("team", "Equal"),
            ("nvidia.com/gpu", "Exists"),
        }
    assert "tolerations" not in render().only("Deployment")["spec"]["template"]["spec"]


def test_pods_spread_over_zones_and_nodes() -> None:
    """The spread counts the Deployment's own pods over zones and nodes; it can be made strict or switched off."""
    spec = render({"topologySpread": {"zoneWhenUnsatisfiable": "DoNotSchedule"}}).only("Deployment")["spec"]
    zone, node = spec["template"]["spec"]["topologySpreadConstraints"]
    assert (zone["topologyKey"], zone["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "DoNotSchedule")
    assert (node["topologyKey"], node["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert (
        zone["labelSelector"]["matchLabels"] == node["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
    )
    off = render({"topologySpread": {"enabled": False}}).only("Deployment")
    assert "topologySpreadConstraints" not in off["spec"]["template"]["spec"]


def test_placement_reaches_the_pod() -> None:
    """Selectors, affinity, classes and scheduler are the pod's; the pre-pull heeds nodes but no other pods."""
    affinity = {"nodeAffinity": {"a": {}}, "podAntiAffinity": {"b": {}}}
    values = {
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "affinity": affinity,
        "priorityClassName": "serving",
        "runtimeClassName": "nvidia",
        "schedulerName": "gang",
        "prePull": {"enabled": True},
    }
    rendered = render(values)
    spec = rendered.only("Deployment")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == values["nodeSelector"]
    assert spec["affinity"] == affinity
    assert (spec["priorityClassName"], spec["runtimeClassName"], spec["schedulerName"]) == ("serving", "nvidia", "gang")
    assert rendered.only("DaemonSet")["spec"]["template"]["spec"]["affinity"] == {"nodeAffinity": {"a": {}}}


def test_a_rollout_can_make_progress() -> None:
    """A rollout that may neither add nor take away a pod is refused; its deadline leaves time to load."""
    assert "no pod could ever be replaced" in fails({"rollout": {"maxSurge": 0, "maxUnavailable": 0}})
    assert "no pod could ever be replaced" in fails({"rollout": {"maxSurge": "0%", "maxUnavailable": 0}})
    assert render({"rollout": {"maxSurge": 0, "maxUnavailable": 1}}).only("Deployment")
    assert render().only("Deployment")["spec"]["progressDeadlineSeconds"] > 1800


def test_long_names_stay_within_what_kubernetes_allows() -> None:
    """Names of objects have at most 63 characters, whatever the release is called."""
    for item in render({"prePull": {"enabled": True}}, release="r" * 53).all():
        assert len(item["metadata"]["name"]) <= 63


def test_the_chart_supports_the_versions_of_the_calendar() -> None:
    """The oldest Kubernetes version of the chart is the oldest of the calendar of EKS versions."""
    chart = load_yaml((CHARTS / "eagle3" / "Chart.yaml").read_text(encoding="utf-8"))[0]
    oldest = min(EKS_VERSIONS, key=lambda version: tuple(map(int, version.split("."))))
    assert chart["kubeVersion"] == f">={oldest}.0-0"

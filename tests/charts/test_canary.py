"""A second version beside the first: what differs, what is shared, and how requests are split."""

from __future__ import annotations

import pytest
import yaml

from chart_doubles import fails, merged, pod_spec, render
from eagle3.config.deployment import parse_config

CANARY = {
    "canary": {"enabled": True, "weight": 20, "image": {"tag": "0.2.0-cpu"}, "config": {"limits": {"concurrency": 8}}},
    "gateway": {"enabled": True, "parentRefs": [{"name": "public"}]},
}


def test_there_is_no_second_version_by_default() -> None:
    """Without canary.enabled one Deployment and one Service are made."""
    assert len(render().all("Deployment")) == len(render().all("Service")) == 1


def test_the_second_version_differs_in_image_and_config_only() -> None:
    """The canary's pods are the server's but for image, config, names and labels."""
    rendered = render(CANARY)
    first, second = (pod_spec(rendered.only("Deployment", name)) for name in ("eagle3", "eagle3-canary"))
    assert first is not None
    assert second is not None
    assert first["containers"][0].pop("image") == "eagle3:0.1.0-cpu"
    assert second["containers"][0].pop("image") == "eagle3:0.2.0-cpu"
    assert second["volumes"][0]["configMap"].pop("name") == "eagle3-canary"
    assert first["volumes"][0]["configMap"].pop("name") == "eagle3"
    for spec in (first, second):
        spec.pop("topologySpreadConstraints")
    assert first == second


def test_the_second_versions_config_lies_over_the_first_ones() -> None:
    """Keys of canary.config win, the others stay, and the result is a config that the server takes."""
    values = merged(CANARY, {"config": {"limits": {"queue": 5}}, "canary": {"config": {"draft": None}}})
    rendered = render(values)
    texts = {name: rendered.only("ConfigMap", name)["data"]["config.yaml"] for name in ("eagle3", "eagle3-canary")}
    first, second = (parse_config(yaml.safe_load(text), source=name) for name, text in texts.items())
    assert (first.limits.concurrency, first.limits.queue, first.draft) == (64, 5, "embedded")
    assert (second.limits.concurrency, second.limits.queue, second.draft) == (8, 5, None)
    sums = [
        rendered.only("Deployment", name)["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for name in texts
    ]
    assert sums[0] != sums[1]


@pytest.mark.parametrize("weight", [0, 1, 20, 100])
def test_the_route_splits_requests_by_weight(weight: int) -> None:
    """The weights of both versions sum to 100."""
    rendered = render(merged(CANARY, {"canary": {"weight": weight}}))
    (rule,) = rendered.only("HTTPRoute")["spec"]["rules"]
    assert {ref["name"]: ref["weight"] for ref in rule["backendRefs"]} == {
        "eagle3": 100 - weight,
        "eagle3-canary": weight,
    }
    for ref in rule["backendRefs"]:
        assert rendered.only("Service", ref["name"])["spec"]["ports"][0]["port"] == ref["port"]


def test_each_service_reaches_its_own_version() -> None:
    """Selectors of the versions share nothing: a Service's selector fits the pods of one Deployment."""
    rendered = render(CANARY)
    for service in rendered.all("Service"):
        fitting = [
            item["metadata"]["name"]
            for item in rendered.all("Deployment")
            if service["spec"]["selector"].items() <= item["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert fitting == [service["metadata"]["name"]]
        assert set(service["spec"]["selector"]) == {f"app.kubernetes.io/{x}" for x in ("name", "instance", "component")}


def test_scaling_leaves_the_second_version_alone() -> None:
    """The first version's replicas are the scaler's, the canary's stay said, and its metrics do not count."""
    rendered = render(merged(CANARY, {"autoscaling": {"kind": "hpa", "hpa": {"metrics": "external"}}}))
    assert "replicas" not in rendered.only("Deployment", "eagle3")["spec"]
    assert rendered.only("Deployment", "eagle3-canary")["spec"]["replicas"] == 1
    scaler = rendered.only("HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"]["name"] == "eagle3"
    for metric in scaler["metrics"]:
        assert metric["external"]["metric"]["selector"]["matchLabels"]["job"] == "eagle3"


def test_a_share_that_nothing_can_give_is_refused() -> None:
    """A weight without a route, or without pods, is refused; weight 0 makes a version to look at."""
    alone = {"canary": CANARY["canary"]}
    assert "nothing splits requests" in fails(alone)
    assert "canary.replicas 0" in fails(merged(CANARY, {"canary": {"replicas": 0}}))
    assert render(merged(alone, {"canary": {"weight": 0}})).only("Deployment", "eagle3-canary")
    assert "at '/canary" in fails(merged(CANARY, {"canary": {"weigth": 5}}))


def test_the_checks_of_the_first_version_hold_for_the_second() -> None:
    """A canary config whose drain does not fit is refused like any other."""
    values = merged(CANARY, {"canary": {"config": {"limits": {"drain_s": 500}}}, "drain": {"spot": True}})
    assert "the drain does not fit" in fails(values)

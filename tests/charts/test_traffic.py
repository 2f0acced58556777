"""What the world reaches: routes, ingress and the registration with a target group."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import fails, render
from infra.constructs.edge.load_balancer import PATHS

GATEWAY = {"enabled": True, "parentRefs": [{"name": "public", "namespace": "gateways"}]}
ARN = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/eagle3-api/0123456789abcdef"


def public() -> set[tuple[str, str]]:
    """Paths that the stacks' load balancer passes on, each with its kind of match."""
    return {(path.removesuffix("/*"), "Prefix" if path.endswith("/*") else "Exact") for path in PATHS}


def test_nothing_is_exposed_unless_asked_for() -> None:
    """By default there is a Service inside the cluster and nothing else."""
    kinds = {item["kind"] for item in render().all()}
    assert not kinds & {"Ingress", "HTTPRoute", "TargetGroupBinding"}
    assert render().only("Service")["spec"]["type"] == "ClusterIP"


def test_a_route_passes_on_the_same_paths_as_the_stacks_load_balancer() -> None:
    """The route's paths are those behind CloudFront: no metrics, no SageMaker routes."""
    route = render({"gateway": {**GATEWAY, "hostnames": ["chat.example.com"]}}).only("HTTPRoute")["spec"]
    (rule,) = route["rules"]
    kinds = {"PathPrefix": "Prefix", "Exact": "Exact"}
    assert {(match["path"]["value"], kinds[match["path"]["type"]]) for match in rule["matches"]} == public()
    assert route["parentRefs"] == GATEWAY["parentRefs"]
    assert route["hostnames"] == ["chat.example.com"]
    assert rule["backendRefs"] == [{"name": "eagle3", "port": 8080, "weight": 100}]


@pytest.mark.parametrize(("limit", "seconds"), [(600, 605), (90.5, 96), (3600, 3605)])
def test_a_route_does_not_cut_streams_and_never_asks_twice(limit: float, seconds: int) -> None:
    """The route's timeout is longer than the server's own for a request; there are no retries, which would be paid."""
    values = {"gateway": GATEWAY, "config": {"limits": {"timeout_s": limit}}}
    (rule,) = render(values).only("HTTPRoute")["spec"]["rules"]
    assert rule["timeouts"] == {"request": f"{seconds}s", "backendRequest": f"{seconds}s"}
    assert "retry" not in rule
    short = {**values, "gateway": {**GATEWAY, "timeoutSeconds": int(limit) - 1}}
    assert "config.limits.timeout_s" in fails(short)


def test_a_route_without_a_gateway_is_refused() -> None:
    """A route that no Gateway takes would be silent."""
    assert "gateway.parentRefs is empty" in fails({"gateway": {"enabled": True}})


def test_an_ingress_has_the_public_paths_for_each_host() -> None:
    """Every host has the same public paths; class, TLS and annotations come by value."""
    ingress = render(
        {
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "hosts": ["a.example.com", "b.example.com"],
                "tls": [{"hosts": ["a.example.com"], "secretName": "tls"}],
                "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
            }
        }
    ).only("Ingress")
    spec = ingress["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": ["a.example.com"], "secretName": "tls"}]
    assert ingress["metadata"]["annotations"] == {"nginx.ingress.kubernetes.io/proxy-buffering": "off"}
    assert [rule["host"] for rule in spec["rules"]] == ["a.example.com", "b.example.com"]
    for rule in spec["rules"]:
        assert {(path["path"], path["pathType"]) for path in rule["http"]["paths"]} == public()
        for path in rule["http"]["paths"]:
            assert path["backend"]["service"] == {"name": "eagle3", "port": {"name": "http"}}


def test_an_ingress_without_a_host_is_refused() -> None:
    """Without a host the API would answer under every name of the controller."""
    assert "ingress.hosts is empty" in fails({"ingress": {"enabled": True}})


def test_pods_register_themselves_in_the_stacks_target_group() -> None:
    """What the large stack passes (an ARN) makes a binding of the Service's pods by address."""
    binding = render({"targetGroupBinding": {"targetGroupARN": ARN}, "service": {"port": 80}}).only(
        "TargetGroupBinding"
    )
    assert binding["apiVersion"] == "elbv2.k8s.aws/v1beta1"
    assert binding["spec"] == {
        "targetGroupARN": ARN,
        "targetType": "ip",
        "serviceRef": {"name": "eagle3", "port": 80},
    }
    assert not render({"targetGroupBinding": {"targetGroupARN": ""}}).all("TargetGroupBinding")


def test_the_load_balancer_is_let_in_and_only_where_there_is_one() -> None:
    """The network policy knows the balancer's addresses with a target group, and none without; they come by value."""
    rule = peers({"targetGroupBinding": {"targetGroupARN": ARN, "sourceCidrs": ["10.7.0.0/16"]}})
    assert {"ipBlock": {"cidr": "10.7.0.0/16"}} in rule
    assert {"ipBlock": {"cidr": "10.0.0.0/8"}} in peers({"targetGroupBinding": {"targetGroupARN": ARN}})
    assert not [peer for peer in peers({}) if "ipBlock" in peer]


def test_notes_say_who_must_be_let_in() -> None:
    """A route or an ingress with a policy that lets no namespace in: the notes name the key."""
    key = "networkPolicy.ingress.namespaces"
    ingress = {"ingress": {"enabled": True, "hosts": ["a.example.com"]}}
    for values in ({"gateway": GATEWAY}, ingress):
        assert key in render(values).texts["templates/NOTES.txt"]
        allowed = {**values, "networkPolicy": {"ingress": {"namespaces": ["gateways"]}}}
        assert key not in render(allowed).texts["templates/NOTES.txt"]


def peers(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Who may reach the server's port."""
    (rule,) = render(values).only("NetworkPolicy", "eagle3")["spec"]["ingress"]
    found: list[dict[str, Any]] = rule["from"]
    return found


@pytest.mark.parametrize(
    "values",
    [
        {"ingress": {"enabled": True, "host": "a"}},
        {"gateway": {"enabled": True, "parentRefs": [{"nam": "x"}]}},
        {"gateway": {"timeoutSeconds": 0}},
        {"targetGroupBinding": {"targetGroupArn": ARN}},
        {"targetGroupBinding": {"targetGroupARN": "arn:aws:s3:::bucket"}},
    ],
)
def test_typos_are_refused(values: dict[str, Any]) -> None:
    """Unknown keys and an ARN of something else are refused by the schema."""
    assert f"at '/{next(iter(values))}" in fails(values)

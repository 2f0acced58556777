"""NetworkPolicies of the chart eagle3: everything is denied but what a value or the config calls for."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import fails, merged, render

EMF = {"config": {"metrics": {"emf": "agent", "agent_endpoint": "tcp://agent.amazon-cloudwatch.svc:25888"}}}
COPY: dict[str, Any] = {"modelCache": {"kind": "ephemeral", "source": "s3://models/llama"}}


def spec(values: dict[str, Any], name: str = "eagle3") -> dict[str, Any]:
    """The policy's spec."""
    found: dict[str, Any] = render(values).only("NetworkPolicy", name)["spec"]
    return found


def ports(rules: list[dict[str, Any]]) -> set[tuple[int, str]]:
    """Every port of some rules."""
    return {(port["port"], port["protocol"]) for rule in rules for port in rule.get("ports", [])}


def sources(rule: dict[str, Any]) -> list[str]:
    """Namespaces that a rule names."""
    selectors = [peer["namespaceSelector"]["matchLabels"] for peer in rule["from"] if "namespaceSelector" in peer]
    return [labels["kubernetes.io/metadata.name"] for labels in selectors]


def test_nothing_is_open_by_default_but_the_server_and_dns() -> None:
    """The default lets pods of the same namespace reach the server's port, and the server reach DNS; nothing else."""
    policy = spec({})
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert ports(policy["ingress"]) == {(8080, "TCP")}
    assert ports(policy["egress"]) == {(53, "UDP"), (53, "TCP")}
    assert all(rule.get("from") for rule in policy["ingress"])
    assert all(rule.get("to") for rule in policy["egress"])


def test_every_kind_of_pod_is_under_a_policy() -> None:
    """Each pod that the chart makes is selected by a policy, whatever its component."""
    rendered = render({"prePull": {"enabled": True}})
    covered: set[str] = set()
    for policy in rendered.all("NetworkPolicy"):
        selector = policy["spec"]["podSelector"]
        covered |= {selector["matchLabels"].get("app.kubernetes.io/component", "")}
        covered |= {value for rule in selector.get("matchExpressions", []) for value in rule["values"]}
    made = [
        item["spec"]["template"]["metadata"] for item in rendered.all() if item["kind"] in ("Deployment", "DaemonSet")
    ]
    made += [item["metadata"] for item in rendered.all("Pod")]
    assert {metadata["labels"]["app.kubernetes.io/component"] for metadata in made} <= covered


def test_policies_can_be_left_to_others() -> None:
    """Without networkPolicy there is none."""
    assert not render({"networkPolicy": {"enabled": False}, "prePull": {"enabled": True}}).all("NetworkPolicy")


def test_sources_are_those_that_are_named() -> None:
    """Namespaces, scrapers and blocks of addresses come in by value; the own namespace can be shut out."""
    block = {"ipBlock": {"cidr": "10.20.0.0/16"}}
    ingress = {"namespaces": ["gateways", "keda"], "metricsNamespaces": ["monitoring", "keda"], "from": [block]}
    (rule,) = spec({"networkPolicy": {"ingress": {**ingress, "sameNamespace": False}}})["ingress"]
    assert sources(rule) == ["gateways", "keda", "monitoring"]
    assert block in rule["from"]
    assert {"podSelector": {}} not in rule["from"]


def test_the_pod_of_helm_test_is_let_in() -> None:
    """Even where the own namespace is shut out, the test reaches the server, and nothing else but DNS."""
    (rule,) = spec({"networkPolicy": {"ingress": {"sameNamespace": False}}})["ingress"]
    (peer,) = rule["from"]
    pod = render().only("Pod")
    assert peer["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    out = spec({}, "eagle3-test")
    assert ports(out["egress"]) == {(53, "UDP"), (53, "TCP"), (8080, "TCP")}
    assert "ingress" not in out


def test_the_port_is_the_configs() -> None:
    """Another port of the server is the one that opens, for callers and for the test."""
    values = {"config": {"serving": {"port": 9000}}}
    assert ports(spec(values)["ingress"]) == {(9000, "TCP")}
    assert (9000, "TCP") in ports(spec(values, "eagle3-test")["egress"])


def test_aws_is_reached_where_a_model_is_copied() -> None:
    """A copy from S3 opens 443 and the Pod Identity agent; a value opens or shuts both; addresses can be narrowed."""
    opened = {(443, "TCP"), (80, "TCP")}
    assert ports(spec(COPY)["egress"]) >= opened
    assert ports(spec({"networkPolicy": {"egress": {"aws": True}}})["egress"]) >= opened
    assert not ports(spec(merged(COPY, {"networkPolicy": {"egress": {"aws": False}}}))["egress"]) & opened
    narrow = spec(merged(COPY, {"networkPolicy": {"egress": {"awsCidrs": ["10.0.0.0/16"]}}}))["egress"]
    rule = next(rule for rule in narrow if (443, "TCP") in ports([rule]))
    assert [peer["ipBlock"]["cidr"] for peer in rule["to"]] == ["10.0.0.0/16"]


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        ("tcp://agent:25888", (25888, "TCP")),
        ("udp://agent:9999", (9999, "UDP")),
        (None, (25888, "TCP")),
    ],
)
def test_the_cloudwatch_agent_is_reached_where_metrics_go_there(endpoint: str | None, port: tuple[int, str]) -> None:
    """config.metrics opens the agent's own port and protocol, and only where records go to an agent."""
    values = merged(EMF, {"config": {"metrics": {"agent_endpoint": endpoint}}})
    assert port in ports(spec(values)["egress"])
    assert port not in ports(spec(merged(values, {"config": {"metrics": {"emf": "stdout"}}}))["egress"])


def test_further_rules_are_taken() -> None:
    """A rule of one's own joins the others; an unknown key of the section is refused."""
    rule = {"to": [{"namespaceSelector": {}}], "ports": [{"port": 4318, "protocol": "TCP"}]}
    assert rule in spec({"networkPolicy": {"egress": {"rules": [rule]}}})["egress"]
    assert "extra" in fails({"networkPolicy": {"egress": {"extra": []}}})

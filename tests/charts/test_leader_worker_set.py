"""One replica over several nodes: the group, how its pods find each other, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaling_doubles import PROMETHEUS
from chart_doubles import fails, merged, render
from eagle3.config.environment import environment_values

COMMAND = ["vllm", "serve", "/models/large", "--headless", "--node-rank=$(LWS_WORKER_INDEX)"]


def group(engine: str = "vllm", **values: Any) -> dict[str, Any]:
    """Values of groups of two nodes with four GPUs each."""
    base: dict[str, Any] = {
        "leaderWorkerSet": {"enabled": True, "size": 2, "workerCommand": COMMAND},
        "config": {
            "target": "/models/large",
            "draft": None,
            "device": "cuda",
            "dtype": "bfloat16",
            "engine": {"name": engine, "tensor_parallel": 8, "arguments": ["--max-model-len=8192"]},
        },
        "model": {"weightsGiB": 140},
    }
    return merged(base, values)


def templates(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Pod templates of the leader and of the workers."""
    template = render(values).only("LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    return template["leaderTemplate"], template["workerTemplate"]


def test_it_takes_the_deployments_place() -> None:
    """With leaderWorkerSet there is no Deployment, and off, which is the default, no LeaderWorkerSet."""
    rendered = render(group())
    assert not rendered.all("Deployment")
    spec = rendered.only("LeaderWorkerSet")["spec"]
    assert spec["leaderWorkerTemplate"]["size"] == 2
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert spec["replicas"] == 1
    assert not render().all("LeaderWorkerSet")


@pytest.mark.parametrize(
    ("engine", "address"),
    [("vllm", "--master-addr=$(LWS_LEADER_ADDRESS)"), ("sglang", "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000")],
)
def test_the_leaders_engine_waits_for_its_group(engine: str, address: str) -> None:
    """The leader's engine gets the config's arguments and those of the group, as a setting that the server reads."""
    leader, _ = templates(group(engine))
    env = {item["name"]: item["value"] for item in leader["spec"]["containers"][0]["env"]}
    said = environment_values({"EAGLE3_ENGINE__ARGUMENTS": env["EAGLE3_ENGINE__ARGUMENTS"]})
    assert list(said["engine"]["arguments"]) == ["--max-model-len=8192", "--nnodes=2", "--node-rank=0", address]
    own, _ = templates(group(engine, leaderWorkerSet={"leaderArguments": ["--x"]}))
    env = {item["name"]: item["value"] for item in own["spec"]["containers"][0]["env"]}
    assert env["EAGLE3_ENGINE__ARGUMENTS"] == '["--max-model-len=8192","--x"]'


def test_workers_run_their_command_and_get_no_requests() -> None:
    """Workers have no probes, run what was given, and no Service selects them; leaders are selected."""
    rendered = render(group())
    leader, worker = templates(group())
    container = worker["spec"]["containers"][0]
    assert container["args"] == COMMAND
    assert not {"startupProbe", "readinessProbe", "livenessProbe"} & set(container)
    assert "startupProbe" in leader["spec"]["containers"][0]
    selector = rendered.only("Service")["spec"]["selector"]
    assert selector.items() <= leader["metadata"]["labels"].items()
    assert not selector.items() <= worker["metadata"]["labels"].items()
    mounted = {volume["configMap"]["name"] for volume in worker["spec"]["volumes"] if "configMap" in volume}
    for name in mounted:
        assert rendered.only("ConfigMap", name)


def test_gpus_are_shared_out_over_the_nodes() -> None:
    """Eight shards on two nodes are four GPUs a pod, for leader and workers alike."""
    for template in templates(group()):
        assert template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "4"


def test_pods_of_a_group_may_talk_and_are_evicted_one_at_a_time() -> None:
    """The network policy covers workers and lets a group talk on every port; the budget covers both."""
    rendered = render(group())
    leader, worker = (template["metadata"]["labels"] for template in templates(group()))
    policy = rendered.only("NetworkPolicy", "eagle3")["spec"]
    free = [rule for rule in policy["ingress"] if "ports" not in rule]
    peers = [peer["podSelector"] for rule in free for peer in rule["from"]]
    out = [peer["podSelector"] for rule in policy["egress"] if "ports" not in rule for peer in rule["to"]]
    budget = rendered.only("PodDisruptionBudget")["spec"]["selector"]
    for labels in (leader, worker):
        assert all(fits(selector, labels) for selector in (policy["podSelector"], budget, *peers, *out))
    assert peers
    assert out


def test_a_group_is_scaled_as_a_whole() -> None:
    """The scaler's target is the LeaderWorkerSet, which then says no replicas (D21)."""
    rendered = render(group(autoscaling=PROMETHEUS))
    target = rendered.only("ScaledObject")["spec"]["scaleTargetRef"]
    item = rendered.only("LeaderWorkerSet")
    assert (target["apiVersion"], target["kind"], target["name"]) == (
        item["apiVersion"], item["kind"], item["metadata"]["name"],
    )  # fmt: skip
    assert "replicas" not in item["spec"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"config": {"engine": {"name": "native", "tensor_parallel": 1}}}, "config.engine.name is native"),
        ({"leaderWorkerSet": {"workerCommand": []}}, "leaderWorkerSet.workerCommand is empty"),
        ({"leaderWorkerSet": {"size": 16}}, "whole nodes would idle"),
        ({"gpus": {"count": 2}}, "config.engine.tensor_parallel is 8, but a replica"),
        ({"canary": {"enabled": True, "weight": 0}}, "canary.enabled and leaderWorkerSet.enabled"),
        ({"leaderWorkerSet": {"size": 1}}, "at '/leaderWorkerSet/size'"),
        ({"leaderWorkerSet": {"sizes": 2}}, "at '/leaderWorkerSet'"),
    ],
)
def test_what_cannot_form_a_group_is_refused(values: dict[str, Any], said: str) -> None:
    """Native engine, no command, idle nodes, too few GPUs, a canary beside it: each with its own message."""
    assert said in fails(merged(group(), values))


def fits(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector selects labels (matchLabels and In)."""
    rules = selector.get("matchExpressions", [])
    assert all(rule["operator"] == "In" for rule in rules)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(rule["key"]) in rule["values"] for rule in rules
    )

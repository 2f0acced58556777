"""Values of the Helm releases: what the charts are told, and that nothing is told twice."""

from __future__ import annotations

import json

import pytest

from bootstrap_doubles import COMPONENTS, FACTS, POOL, RUNTIME, addresses
from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.errors import ConfigError
from infra.kubernetes.components import components, mirrored_images
from infra.kubernetes.helm_values import RuntimeImage, gpu_tolerations, helm_values, runtime_config
from infra.kubernetes.karpenter import GPU_LABEL
from infra.settings.components import ComponentSettings
from infra.settings.pools import PoolSettings, Taint

ALL_ON = ComponentSettings(
    load_balancer_controller=COMPONENTS.load_balancer_controller.model_copy(update={"enabled": True})
)
POOLS = [POOL, PoolSettings(name="more", taints=(Taint(), Taint(key="team", value="a", effect="NoExecute")))]


def values(settings=ALL_ON, facts=FACTS, pools=POOLS, runtime=RUNTIME):
    return helm_values(settings, facts=facts, pools=pools, repositories=addresses(settings), runtime=runtime)


def tolerates(tolerations, taint):
    return any(
        one["key"] == taint.key
        and one["effect"] == taint.effect
        and (one["operator"] == "Exists" or one["value"] == taint.value)
        for one in tolerations
    )


@pytest.mark.parametrize("release", ["eagle3", "nvidia-device-plugin", "dcgm-exporter"])
def test_every_taint_is_tolerated(release):
    """D9: workload, device plugin and DCGM exporter tolerate each taint of each pool, and run on GPU nodes only."""
    made = values()[release]
    for pool in POOLS:
        for taint in pool.taints:
            assert tolerates(made["tolerations"], taint), (release, taint)
    assert made["nodeSelector"] == {GPU_LABEL: "true"}


def test_tolerations_stand_once():
    """Taints that several pools share are tolerated once; no pool with taints, no toleration."""
    assert len(gpu_tolerations(POOLS)) == 2
    assert gpu_tolerations([PoolSettings(taints=())]) == []


def test_gpu_pools_come_with_a_device_plugin():
    """D10: the device plugin is among the releases, pinned, with its image in the private registry."""
    made = values()["nvidia-device-plugin"]
    assert made["image"]["tag"] == f"v{ALL_ON.device_plugin.version}"
    assert made["image"]["repository"] == addresses()["nvidia/k8s-device-plugin"]


def test_karpenter_is_told_the_queue_by_name():
    """D6: the interruption queue is given by its name, neither address nor ARN."""
    settings = values()["karpenter"]["settings"]
    assert settings["interruptionQueue"] == FACTS.interruption_queue
    assert not settings["interruptionQueue"].startswith(("https:", "arn:"))
    assert settings["clusterName"] == FACTS.cluster_name


@pytest.mark.parametrize("isolated", [True, False])
def test_karpenter_knows_whether_the_vpc_is_isolated(isolated):
    """D4: without NAT Karpenter is told so, and does not ask services that have no endpoint; with NAT it is not."""
    facts = FACTS.__class__(
        cluster_name=FACTS.cluster_name,
        region=FACTS.region,
        vpc_id=FACTS.vpc_id,
        isolated=isolated,
        interruption_queue=FACTS.interruption_queue,
        karpenter_service_account="karpenter",
    )
    assert values(facts=facts)["karpenter"]["settings"]["isolatedVPC"] is isolated


def test_karpenter_runs_as_the_account_with_its_rights():
    """The service account is the one that Pod Identity gives the controller's rights to."""
    assert values()["karpenter"]["serviceAccount"] == {"create": True, "name": FACTS.karpenter_service_account}


def test_every_image_is_private():
    """No value names a public registry, and every mirrored image is used by a release."""
    text = json.dumps(values())
    for public in ("public.ecr.aws", "ghcr.io", "nvcr.io", "quay.io", "docker.io"):
        assert public not in text
    for image in mirrored_images(ALL_ON):
        assert addresses(ALL_ON)[image.repository] in text
        assert image.tag in text


def test_values_for_every_release_that_is_on():
    """Switched-on components have values, switched-off ones have none, and the kit's own only with an image."""
    assert set(values()) == {component.release for component in components(ALL_ON)}
    assert "aws-load-balancer-controller" not in values(settings=COMPONENTS)
    assert "eagle3" not in values(runtime=None)


def test_own_chart_gets_the_deployment_config_as_it_is():
    """What the chart holds under `config` is a whole deployment config, the stack's own but for address and metrics."""
    made = values()["eagle3"]
    config = parse_config(made["config"], source="values")
    assert config.speculation == RUNTIME.deployment.speculation
    assert config.limits == RUNTIME.deployment.limits
    assert config.device == "cuda"
    assert config.serving.host == "0.0.0.0"
    assert config.metrics.emf == "agent"
    assert config.metrics.agent_endpoint == FACTS.emf_endpoint
    assert config.metrics.dimensions == {"ClusterName": FACTS.cluster_name}
    assert made["image"] == {"repository": RUNTIME.image.repository, "tag": "0.1.0"}


def test_config_without_an_agent_keeps_its_own_metrics():
    """Where there is no agent the config's own choice of metrics stays."""
    facts = FACTS.__class__(
        cluster_name="c",
        region="us-east-1",
        vpc_id="v",
        isolated=True,
        interruption_queue="q",
        karpenter_service_account="karpenter",
    )
    assert runtime_config(DeploymentConfig(), facts).metrics.emf == "off"


def test_image_tag_latest_is_refused():
    """A tag that changes its meaning is one error that says what to give; a digest makes any tag good."""
    with pytest.raises(ConfigError, match="'latest', which means something else every day"):
        RuntimeImage(repository="r", tag="latest")
    with pytest.raises(ConfigError, match="neither tag nor digest"):
        RuntimeImage(repository="r")
    assert RuntimeImage(repository="r", tag="latest", digest="sha256:" + "0" * 64)


def test_exporter_needs_no_prometheus_operator():
    """The DCGM exporter's chart asks for CRDs that the cluster does not have unless it is told not to."""
    assert values()["dcgm-exporter"]["serviceMonitor"] == {"enabled": False}


def test_load_balancer_controller_is_told_what_it_cannot_look_up():
    """Region and VPC are given, since pods do not reach instance metadata; services without endpoint are off."""
    made = values()["aws-load-balancer-controller"]
    assert (made["clusterName"], made["region"], made["vpcId"]) == (FACTS.cluster_name, "us-east-1", "vpc-1")
    assert not any(made[key] for key in ("enableShield", "enableWaf", "enableWafv2"))

"""The chart takes what the stack large passes to it, and its pods run on the nodes that the stack makes."""

from __future__ import annotations

import pytest
import yaml

from chart_doubles import CHARTS, fails, merged, render, values_file
from eagle3.config.deployment import DeploymentConfig, parse_config
from infra.kubernetes.components import components, mirrored_repositories
from infra.kubernetes.helm_values import (
    ClusterFacts,
    RuntimeImage,
    RuntimeRelease,
    gpu_tolerations,
    helm_values,
    runtime_config,
)
from infra.kubernetes.karpenter import node_pool
from infra.kubernetes.pool_limits import pool_limits
from infra.settings.components import ComponentSettings
from infra.settings.pools import PoolSettings, Taint

FACTS = ClusterFacts(
    cluster_name="eagle3-dev-large-cluster",
    region="us-east-1",
    vpc_id="vpc-1",
    isolated=True,
    interruption_queue="queue",
    karpenter_service_account="karpenter",
    emf_endpoint="tcp://cloudwatch-agent.amazon-cloudwatch:25888",
    emf_log_group="/eagle3/eagle3-dev-large-cluster/metrics",
)
IMAGE = RuntimeImage(repository="123456789012.dkr.ecr.us-east-1.amazonaws.com/eagle3/runtime", tag="0.1.0-cuda13.0")
ONE_POOL = (PoolSettings(),)
TWO_POOLS = (*ONE_POOL, PoolSettings(name="more", taints=(Taint(key="team", value="a", effect="NoExecute"),)))
FULL = DeploymentConfig.model_validate(values_file("values-p4d.yaml")["config"])


def passed(deployment, pools=ONE_POOL, more=None):
    """Values of the release eagle3, as the stack makes them."""
    settings = ComponentSettings()
    made = helm_values(
        settings,
        facts=FACTS,
        pools=pools,
        repositories={name: f"registry/{name}" for name in mirrored_repositories(settings)},
        runtime=RuntimeRelease(deployment=deployment, image=IMAGE, more=more or {}),
    )
    return made["eagle3"]


def mounted(rendered):
    return yaml.safe_load(rendered.only("ConfigMap", "eagle3")["data"]["config.yaml"])


def test_the_config_arrives_unchanged():
    """Every key of the deployment config reaches the file that the server reads, with its value and type."""
    deployment = FULL.model_copy(update={"draft": None})
    values = merged(passed(deployment), {"model": {"weightsGiB": 135}, "drain": {"spot": True}})
    assert parse_config(mounted(render(values)), source="test") == runtime_config(deployment, FACTS)


@pytest.mark.parametrize("pools", [ONE_POOL, TWO_POOLS], ids=["one pool", "two pools"])
def test_pods_run_on_the_nodes_of_the_pools(pools):
    """D9: the pods ask for a label that the pools' nodes have, and tolerate every taint that these carry."""
    spec = render(passed(DeploymentConfig(device="cuda"), pools)).only("Deployment")["spec"]["template"]["spec"]
    for pool in pools:
        limits = pool_limits(pool, region="us-east-1", budget_usd=200_000)
        template = node_pool(pool, limits=limits, zones=("us-east-1a", "us-east-1b"))["spec"]["template"]
        assert spec["nodeSelector"].items() <= template["metadata"]["labels"].items()
    assert all(toleration in spec["tolerations"] for toleration in gpu_tolerations(pools))


def test_the_stack_installs_this_version():
    """The archive that the stack looks for is the one that `make release` makes."""
    [own] = [component for component in components(ComponentSettings()) if component.source is None]
    chart = yaml.safe_load((CHARTS / "eagle3" / "Chart.yaml").read_text(encoding="utf-8"))
    assert own.archive == f"{chart['name']}-{chart['version']}.tgz"


def test_an_unknown_value_is_refused():
    """A value that the stack would pass under another name is refused, not overlooked."""
    values = passed(DeploymentConfig(device="cuda"), more={"targetGroupARN": "arn"})
    assert "'targetGroupARN' not allowed" in fails(values)

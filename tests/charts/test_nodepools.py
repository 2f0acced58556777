"""The chart eagle3-nodepools gives the manifests that the stack large applies, and refuses what that would refuse."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from chart_doubles import ROOT, fails, lint, load_yaml, merged, render
from infra.kubernetes.karpenter import NodeIdentity, node_class, node_pool
from infra.kubernetes.nodepool_values import chart_values, pool_values, settings_pools
from infra.kubernetes.pool_limits import PoolLimits
from infra.settings.load import load_settings
from infra.settings.pools import PoolSettings, Taint

CHART = "eagle3-nodepools"
KEY = "arn:aws:kms:us-east-1:123456789012:key/1"
PLACES = {
    "subnet_ids": ["subnet-1", "subnet-2"],
    "security_group_ids": ["sg-1"],
    "kms_key_arn": KEY,
    "tags": {"Project": "eagle3-test", "Cost": "7"},
}
ZONES = ("us-east-1a", "us-east-1b")
LIMITS = PoolLimits(gpus=16, vcpus=192, usd_per_month=None)
ROLE, PROFILE = NodeIdentity(role="node"), NodeIdentity(instance_profile="eagle3-test-node")
POOLS = {
    "default": PoolSettings(),
    "bottlerocket": PoolSettings(ami_alias="bottlerocket@1.55.0", disk_gib=500, instance_store=None),
    "reserved": PoolSettings(
        capacity_types=("reserved", "spot", "on-demand"),
        reservations=("cr-0123456789abcdef0", "cr-1"),
        expire_after_h=None,
    ),
    "labels and no taints": PoolSettings(labels={"team": "search", "tier": "1", "on": "true"}, taints=()),
    "two taints": PoolSettings(taints=(Taint(), Taint(key="team", value="", effect="NoExecute"))),
    "narrow": PoolSettings(
        name="a10g",
        instance_types=("g5.xlarge",),
        capacity_types=("on-demand",),
        one_zone="us-east-1a",
        narrow_reason="the weights lie on a volume of this zone",
    ),
    "impatient": PoolSettings(
        consolidation_policy="WhenEmpty", consolidate_after_s=0, expire_after_h=1, termination_grace_s=86_400
    ),
    "balanced": PoolSettings(consolidation_policy="Balanced", max_nodes=2, budget_share=0.1, zones_confirmed=True),
}


def zones_of(pool):
    return ZONES if pool.one_zone is None else (pool.one_zone,)


def values(*pools, identity=PROFILE, **changes):
    made = [pool_values(pool, limits=LIMITS, zones=zones_of(pool)) for pool in pools or [POOLS["default"]]]
    return chart_values(made, identity=identity, **{**PLACES, **changes})


def with_pool(**changes):
    """Values of one pool with some of its keys changed."""
    whole = values()
    whole["pools"][0] |= changes
    return whole


def without(key):
    whole = values()
    del whole["pools"][0][key]
    return whole


@pytest.mark.parametrize("identity", [ROLE, PROFILE], ids=["role", "profile"])
@pytest.mark.parametrize("name", POOLS)
def test_chart_and_stack_give_the_same_manifests(name, identity):
    """D2, D3: from one PoolSettings the chart renders exactly what `node_pool` and `node_class` make."""
    pool = POOLS[name]
    rendered = render(values(pool, identity=identity), chart=CHART)
    assert rendered.only("NodePool") == node_pool(pool, limits=LIMITS, zones=zones_of(pool))
    assert rendered.only("EC2NodeClass") == node_class(pool, identity=identity, **PLACES)


def test_every_pool_is_rendered():
    """Several pools give a NodePool and an EC2NodeClass each, and nothing else."""
    pools = [pool.model_copy(update={"name": f"pool{index}"}) for index, pool in enumerate(POOLS.values())]
    rendered = render(values(*pools), chart=CHART)
    expected = [node_pool(pool, limits=LIMITS, zones=zones_of(pool)) for pool in pools]
    assert rendered.all("NodePool") == expected
    assert rendered.all("EC2NodeClass") == [node_class(pool, identity=PROFILE, **PLACES) for pool in pools]
    assert len(rendered.objects) == 2 * len(pools)


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_environments_render(environment):
    """The pools of each environment render, in its zones and within the limits of its budget."""
    pools = settings_pools(load_settings(environment, ""))
    places = {key: value for key, value in values().items() if key != "pools"}
    rendered = render({**places, "pools": pools}, chart=CHART)
    assert [pool["metadata"]["name"] for pool in rendered.all("NodePool")] == [pool["name"] for pool in pools]
    assert rendered.only("NodePool")["spec"]["limits"]["nvidia.com/gpu"] == str(pools[0]["limits"]["gpus"])


def test_values_are_printed_by_a_command():
    """The module run by itself prints the pools of an environment; bad settings end with exit code 2."""
    command = [sys.executable, "-m", "infra.kubernetes.nodepool_values"]
    environment = {"EAGLE3KIT_ENVIRONMENT": "prod", "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"}
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120, check=True)
    assert load_yaml(run.stdout) == [{"pools": settings_pools(load_settings("prod", ""))}]
    environment["EAGLE3KIT_SET"] = "large.pools=[{name: gpu, disk_gib: 20}]"
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert "large.pools" in run.stderr


def test_defaults_are_those_of_the_settings():
    """What a pool leaves out is what PoolSettings leaves out: a pool of a name and limits is the default pool."""
    shipped = yaml.safe_load((ROOT / "charts" / CHART / "values.yaml").read_text(encoding="utf-8"))["poolDefaults"]
    settings = PoolSettings().model_dump(mode="json")
    assert shipped == {key: settings[key] for key in shipped}
    resolved_or_absent = {"name", "budget_share", "max_nodes", "zones_confirmed", "one_zone", "narrow_reason"}
    assert set(settings) - set(shipped) == resolved_or_absent
    least = {**values(), "zones": list(ZONES), "pools": [{"name": "gpu", "limits": {"gpus": 16, "vcpus": 192}}]}
    assert render(least, chart=CHART).all() == render(values(), chart=CHART).all()


def test_schema_has_the_keys_and_bounds_of_the_settings():
    """A pool of the chart has every key of PoolSettings with its bounds, and `zones`, `subnet_ids`, `limits`."""
    schema = json.loads((ROOT / "charts" / CHART / "values.schema.json").read_text(encoding="utf-8"))
    pool = schema["properties"]["pools"]["items"]["properties"]
    settings = PoolSettings.model_json_schema()["properties"]
    assert set(pool) == set(settings) | {"zones", "subnet_ids", "limits"}
    for key in ("name", "consolidate_after_s", "termination_grace_s", "disk_gib"):
        for bound in ("pattern", "minimum", "maximum"):
            # The least disk is refused by the template, which says why.
            if bound in settings[key] and (key, bound) != ("disk_gib", "minimum"):
                assert pool[key][bound] == settings[key][bound], (key, bound)
    assert pool["consolidation_policy"]["enum"] == settings["consolidation_policy"]["enum"]
    defaults = schema["properties"]["poolDefaults"]["properties"]
    assert all(pool[key] == value for key, value in defaults.items())


REFUSED = {
    "no pool": (merged(values(), {"pools": []}), "pools is empty"),
    "latest image": (with_pool(ami_alias="al2023@latest"), "ami_alias is pinned"),
    "latest bottlerocket": (with_pool(ami_alias="bottlerocket@latest"), "got bottlerocket@latest"),
    "expiry without end of drain": (with_pool(termination_grace_s=None), "termination_grace_s is null"),
    "one type": (with_pool(instance_types=["p4d.24xlarge"]), "no second choice"),
    "spot alone": (with_pool(capacity_types=["spot"]), "got spot; name both"),
    "one zone": (with_pool(zones=["us-east-1a"]), "does not survive its loss"),
    "one_zone elsewhere": (with_pool(one_zone="us-east-1f"), "got us-east-1f"),
    "no zone": (with_pool(zones=[]), "has no zone"),
    "small disk": (with_pool(disk_gib=100), "200 at least, since images and weights lie on it; got 100"),
    "no identity": (values() | {"instanceProfile": ""}, "neither role nor instanceProfile"),
    "two identities": (values() | {"role": "node"}, "role (node) and instanceProfile (eagle3-test-node)"),
    "no subnet": (values() | {"subnetIds": []}, "has no subnet"),
    "no security group": (values() | {"securityGroupIds": []}, "securityGroupIds is empty"),
    "no limits": (without("limits"), "has no limits"),
    "reserved without reservations": (
        with_pool(capacity_types=["reserved", "spot", "on-demand"]),
        "capacity type 'reserved' and reservations go together",
    ),
    "Karpenter's label": (with_pool(labels={"karpenter.sh/nodepool": "a"}), "Karpenter sets the label"),
    "name twice": ({**values(), "pools": values()["pools"] * 2}, "pool gpu stands twice"),
    "budget": (with_pool(budget_share=0.5), "budget_share is a setting of the CDKTF stacks"),
    "nodes": (with_pool(max_nodes=None), "max_nodes is a setting of the CDKTF stacks"),
    "unknown key": (values() | {"subnets": ["subnet-1"]}, "'subnets' not allowed"),
    "unknown key of a pool": (with_pool(instanceTypes=["p4d.24xlarge"]), "'instanceTypes' not allowed"),
    "unknown default": (values() | {"poolDefaults": {"disk": 3}}, "'disk' not allowed"),
    "short reason": (with_pool(narrow_reason="because"), "minLength"),
    "Karpenter's tag": (values() | {"tags": {"karpenter.sh/nodepool": "a"}}, "set karpenter.sh/nodepool themselves"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_right_is_refused(case):
    """D2, D11, D12, D13: each is refused while rendering, with what is wrong in the message."""
    given, message = REFUSED[case]
    assert message in fails(given, chart=CHART)


def test_reason_permits_a_narrow_pool():
    """D12: one type, zone and capacity type are taken where a reason says why; without it they are not."""
    narrow = {"instance_types": ["p4d.24xlarge"], "zones": ["us-east-1a"], "capacity_types": ["on-demand"]}
    fails(with_pool(**narrow), chart=CHART)
    rendered = render(with_pool(**narrow, narrow_reason="a lesson in one zone"), chart=CHART)
    assert len(rendered.only("NodePool")["spec"]["template"]["spec"]["requirements"][0]["values"]) == 1


def test_explicit_null_and_empty_win_over_defaults():
    """A pool's null or empty list is what it says, not the default."""
    rendered = render(with_pool(expire_after_h=None, instance_store=None, taints=[]), chart=CHART)
    template = rendered.only("NodePool")["spec"]["template"]["spec"]
    assert template["expireAfter"] == "Never"
    assert "taints" not in template
    assert "instanceStorePolicy" not in rendered.only("EC2NodeClass")["spec"]


def test_disks_are_encrypted_without_a_key_too():
    """D8, D11: without a key of one's own the account's default key encrypts."""
    spec = render(values(kms_key_arn=""), chart=CHART).only("EC2NodeClass")["spec"]
    assert [disk["ebs"]["encrypted"] for disk in spec["blockDeviceMappings"]] == [True]
    assert "kmsKeyID" not in spec["blockDeviceMappings"][0]["ebs"]


def test_notes_name_the_next_command():
    """NOTES.txt names the pools and the command that installs the runtime onto them."""
    notes = render(values(), chart=CHART).texts["templates/NOTES.txt"]
    assert "kubectl get ec2nodeclasses,nodepools" in notes
    assert "helm upgrade --install eagle3" in notes
    assert "nodeSelector.eagle3-kit/pool=gpu" in notes


def test_lint_finds_nothing():
    """Helm's linter finds nothing with values of a real pool."""
    assert lint(values(), chart=CHART) == []

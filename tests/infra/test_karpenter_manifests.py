"""Karpenter's manifests obey the rules of its CRDs (release 1.14), written down here as tests."""

from __future__ import annotations

import re

import pytest

from infra.kubernetes.karpenter import GPU_LABEL, NodeIdentity, manifest_list, node_class, node_pool
from infra.kubernetes.pool_limits import PoolLimits, pool_limits
from infra.settings.pools import PoolSettings, Taint

DURATION = re.compile(r"^([0-9]+(s|m|h))+$")
VOLUME_SIZE = re.compile(r"^([1-9][0-9]{0,3}|[1-4][0-9]{4})Gi$")
LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
ZONES = ("us-east-1a", "us-east-1b")
PROFILE = NodeIdentity(instance_profile="eagle3-test-node")
# Labels of Karpenter's own domains that a requirement may name.
ALLOWED_OWN = {"karpenter.sh/capacity-type", "karpenter.sh/nodepool"}
BOTTLEROCKET = PoolSettings(ami_alias="bottlerocket@1.55.0")
RESERVED = PoolSettings(
    capacity_types=("reserved", "spot", "on-demand"), reservations=("cr-0123456789abcdef0",), expire_after_h=None
)
POOLS = [PoolSettings(), BOTTLEROCKET, RESERVED, PoolSettings(labels={"team": "search"}, taints=())]


def a_class(pool=POOLS[0], identity=PROFILE):
    return node_class(
        pool,
        identity=identity,
        subnet_ids=["subnet-1", "subnet-2"],
        security_group_ids=["sg-1"],
        kms_key_arn="arn:aws:kms:us-east-1:123456789012:key/1",
        tags={"Project": "eagle3-test"},
    )


def a_pool(pool=POOLS[0]):
    return node_pool(pool, limits=pool_limits(pool, region="us-east-1", budget_usd=60_000), zones=ZONES)


@pytest.mark.parametrize("pool", POOLS)
def test_node_pool_obeys_the_crd(pool):
    """D2: the reference is whole and its group has no slash, durations and requirements have the CRD's form."""
    manifest = a_pool(pool)
    assert (manifest["apiVersion"], manifest["kind"]) == ("karpenter.sh/v1", "NodePool")
    spec = manifest["spec"]
    template = spec["template"]["spec"]
    reference = template["nodeClassRef"]
    assert set(reference) == {"group", "kind", "name"}
    assert all(reference.values())
    assert "/" not in reference["group"]
    assert template["expireAfter"] == "Never" or DURATION.fullmatch(template["expireAfter"])
    for requirement in template["requirements"]:
        assert requirement["operator"] == "In"
        assert requirement["values"]
        assert all(LABEL_VALUE.fullmatch(value) and len(value) <= 63 for value in requirement["values"])
        if requirement["key"].split("/")[0].endswith(("karpenter.sh", "karpenter.k8s.aws")):
            assert requirement["key"] in ALLOWED_OWN
    assert len(template["requirements"]) <= 100
    labels = spec["template"]["metadata"]["labels"]
    assert not any(key.startswith("karpenter") or key == "kubernetes.io/hostname" for key in labels)
    assert all(LABEL_VALUE.fullmatch(value) and len(value) <= 63 for value in labels.values())


@pytest.mark.parametrize("pool", POOLS)
def test_disruption_says_when(pool):
    """D2: where there is a disruption section it says consolidateAfter, by default 60 s."""
    disruption = a_pool(pool)["spec"]["disruption"]
    assert DURATION.fullmatch(disruption["consolidateAfter"])
    assert disruption["consolidateAfter"] == "60s"
    assert disruption["consolidationPolicy"] in ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
    assert re.fullmatch(r"((100|[0-9]{1,2})%|[0-9]+)", disruption["budgets"][0]["nodes"])


@pytest.mark.parametrize("pool", POOLS)
def test_every_drain_ends(pool):
    """D13: a node's drain has an end, with an expiry and without one."""
    template = a_pool(pool)["spec"]["template"]["spec"]
    assert DURATION.fullmatch(template["terminationGracePeriod"])


def test_one_pool_falls_back_to_on_demand():
    """D12: one pool holds spot and on-demand, two types and two zones."""
    values = {item["key"]: item["values"] for item in a_pool()["spec"]["template"]["spec"]["requirements"]}
    assert {"spot", "on-demand"} <= set(values["karpenter.sh/capacity-type"])
    assert len(values["node.kubernetes.io/instance-type"]) >= 2
    assert len(values["topology.kubernetes.io/zone"]) >= 2


def test_limits_are_those_of_the_budget():
    """GPUs and CPUs are bounded; an absent limit would mean none at all."""
    limits = a_pool()["spec"]["limits"]
    expected = pool_limits(PoolSettings(), region="us-east-1", budget_usd=60_000)
    assert limits == {"nvidia.com/gpu": str(expected.gpus), "cpu": str(expected.vcpus)}
    unlimited = node_pool(PoolSettings(), limits=PoolLimits(gpus=8, vcpus=96, usd_per_month=None), zones=ZONES)
    assert unlimited["spec"]["limits"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize("pool", POOLS)
def test_nodes_are_labelled_for_the_device_plugin(pool):
    """D10: nodes carry the label that the device plugin's chart looks for."""
    assert a_pool(pool)["spec"]["template"]["metadata"]["labels"][GPU_LABEL] == "true"


def test_taints_are_those_of_the_settings():
    """D9: the pool's taints are written as they are; without any there is no empty list."""
    tainted = a_pool(PoolSettings(taints=(Taint(), Taint(key="team", value="a", effect="NoExecute"))))
    assert tainted["spec"]["template"]["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "team", "value": "a", "effect": "NoExecute"},
    ]
    assert "taints" not in a_pool(PoolSettings(taints=()))["spec"]["template"]["spec"]


@pytest.mark.parametrize(("identity", "key"), [(PROFILE, "instanceProfile"), (NodeIdentity(role="node"), "role")])
def test_node_class_names_role_or_profile(identity, key):
    """D3, D4: exactly one of role and instance profile; the profile where there is no NAT."""
    spec = a_class(identity=identity)["spec"]
    assert {"role", "instanceProfile"} & set(spec) == {key}


def test_neither_or_both_identities_are_refused():
    """D4: a node class with both, or with none, cannot be written."""
    with pytest.raises(AssertionError, match="exactly one"):
        NodeIdentity()
    with pytest.raises(AssertionError, match="exactly one"):
        NodeIdentity(role="a", instance_profile="b")


@pytest.mark.parametrize("pool", POOLS)
def test_disks_are_large_encrypted_and_on_the_right_device(pool):
    """D11: images lie on /dev/xvda (AL2023) or /dev/xvdb (Bottlerocket), on 200 GiB at least, encrypted by our key."""
    spec = a_class(pool)["spec"]
    disks = {disk["deviceName"]: disk for disk in spec["blockDeviceMappings"]}
    device = "/dev/xvdb" if pool is BOTTLEROCKET else "/dev/xvda"
    [root] = [name for name, disk in disks.items() if disk.get("rootVolume")]
    assert root == device
    assert int(disks[device]["ebs"]["volumeSize"].removesuffix("Gi")) >= 200
    for disk in disks.values():
        assert VOLUME_SIZE.fullmatch(disk["ebs"]["volumeSize"])
        assert disk["ebs"]["encrypted"] is True
        assert disk["ebs"]["kmsKeyID"].startswith("arn:aws:kms:")
    assert spec["instanceStorePolicy"] == "RAID0"


@pytest.mark.parametrize("pool", POOLS)
def test_node_class_obeys_the_crd(pool):
    """D2: one pinned alias, ids alone in every selector term, tokens required for metadata, no tag of Karpenter's."""
    manifest = a_class(pool)
    assert (manifest["apiVersion"], manifest["kind"]) == ("karpenter.k8s.aws/v1", "EC2NodeClass")
    spec = manifest["spec"]
    [image] = spec["amiSelectorTerms"]
    assert set(image) == {"alias"}
    assert re.fullmatch(r"[a-zA-Z0-9]+@.+", image["alias"])
    assert not image["alias"].endswith("@latest")
    for selector in ("subnetSelectorTerms", "securityGroupSelectorTerms"):
        assert spec[selector]
        assert all(set(term) == {"id"} for term in spec[selector])
    assert spec["metadataOptions"]["httpTokens"] == "required"
    assert not any("karpenter" in key or key.startswith(("kubernetes.io/cluster", "eks:")) for key in spec["tags"])


def test_reserved_capacity_selects_its_reservations():
    """A reserved pool names its reservations; the others have no such selector."""
    assert a_class(RESERVED)["spec"]["capacityReservationSelectorTerms"] == [{"id": "cr-0123456789abcdef0"}]
    assert "capacityReservationSelectorTerms" not in a_class()["spec"]


def test_pool_refers_to_its_class():
    """The NodePool's reference is the name of the EC2NodeClass of the same settings."""
    assert a_pool()["spec"]["template"]["spec"]["nodeClassRef"]["name"] == a_class()["metadata"]["name"]


def test_list_holds_its_manifests():
    """Several manifests are one object that kubectl applies."""
    assert manifest_list([a_pool(), a_pool(BOTTLEROCKET)])["kind"] == "List"
    assert len(manifest_list([a_pool()])["items"]) == 1

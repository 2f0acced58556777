"""Settings of the cluster: safe by default, and wrong values named."""

from __future__ import annotations

from datetime import date

import pytest
from pydantic import ValidationError

from eagle3.errors import ConfigError
from infra.catalogue.eks_calendar import DEFAULT_VERSION
from infra.settings.cluster import ClusterSettings, check_cluster

TODAY = date(2026, 11, 30)
ROLE = "arn:aws:iam::123456789012:role/platform"


def test_defaults():
    """The default is the calendar's version, protected, two small nodes, no logs that are billed by the gigabyte."""
    settings = ClusterSettings()
    assert settings.kubernetes_version == DEFAULT_VERSION
    assert settings.support_type == "STANDARD"
    assert settings.deletion_protection
    assert settings.system_nodes.min_nodes == 2
    assert not settings.cloudwatch_agent.container_logs
    assert check_cluster(settings, karpenter_version="1.14.0", today=TODAY) is None


def test_reason_to_stay_turns_extended_support_on():
    """With STANDARD, AWS would upgrade the cluster on the day; a reason to stay means that it must not."""
    settings = ClusterSettings(kubernetes_version="1.33", calendar_override="waiting for a driver")
    assert settings.support_type == "EXTENDED"
    notice = check_cluster(settings, karpenter_version="1.14.0", today=TODAY)
    assert notice is not None
    assert "waiting for a driver" in notice


@pytest.mark.parametrize(
    ("version", "karpenter", "message"),
    [("1.33", "1.14.0", "standard support of EKS 1.33 ended"), ("1.35", "1.8.0", "needs Karpenter 1.9")],
)
def test_versions_are_checked_together(version, karpenter, message):
    """A stack is refused for a version out of support, and for a Karpenter that does not run on it."""
    settings = ClusterSettings(kubernetes_version=version)
    with pytest.raises(ConfigError, match=message):
        check_cluster(settings, karpenter_version=karpenter, today=TODAY)


@pytest.mark.parametrize("types", [["m7g.large"], ["m6i.large", "c7gn.xlarge"], ["t4g.medium"], ["a1.large"]])
def test_arm_types_are_refused(types):
    """The nodes run an x86 image; a Graviton type would never join."""
    with pytest.raises(ValidationError, match="x86 image; got the Arm types"):
        ClusterSettings(system_nodes={"instance_types": types})


@pytest.mark.parametrize("types", [["m6i.large"], ["g5.xlarge", "m7i-flex.large"], ["gr6.4xlarge", "c6id.large"]])
def test_x86_types_pass(types):
    """Families whose name has a g elsewhere are x86."""
    assert ClusterSettings(system_nodes={"instance_types": types}).system_nodes.instance_types == tuple(types)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kubernetes_version": 1.35}, "valid string"),
        ({"kubernetes_version": "latest"}, "pattern"),
        ({"system_nodes": {"min_nodes": 1}}, "greater than or equal to 2"),
        ({"system_nodes": {"min_nodes": 5}}, "max_nodes must be at least min_nodes"),
        ({"system_nodes": {"instance_types": ["m5.large", "m5.large"]}}, "listed twice"),
        ({"system_nodes": {"release_version": "1.34.2-20261105"}}, "release for kubernetes_version 1.35"),
        ({"addons": {"vpc_cni": "latest"}}, "pattern"),
        ({"addons": {"cilium": "v1.0.0-eksbuild.1"}}, "Extra inputs"),
        ({"administrators": ["platform"]}, "pattern"),
        ({"administrators": [ROLE], "viewers": [ROLE]}, "one access entry"),
        ({"calendar_override": "no"}, "at least 10 characters"),
    ],
)
def test_wrong_values_are_named(values, message):
    """Each wrong value is refused with what is wrong about it."""
    with pytest.raises(ValidationError, match=message):
        ClusterSettings(**values)


def test_pinned_versions_pass():
    """Versions as AWS writes them are accepted."""
    settings = ClusterSettings(
        system_nodes={"release_version": "1.35.2-20261105"},
        addons={"vpc_cni": "v1.21.1-eksbuild.3", "metrics_server": "v0.8.0-eksbuild.6"},
    )
    assert settings.addons.vpc_cni == "v1.21.1-eksbuild.3"

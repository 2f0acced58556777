"""Settings of pools: what is refused, each with one error that says what to do."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from eagle3.config.validation import first_error
from eagle3.errors import ConfigError
from infra.kubernetes.pool_limits import pool_limits
from infra.settings.components import ComponentSettings, check_components
from infra.settings.pools import PoolSettings, check_pools, pool_zones

ZONES = ("us-east-1a", "us-east-1b")
WHY = "a test cluster that may be down"


def refused(**values) -> str:
    """The one message of settings that are refused."""
    with pytest.raises(ValidationError) as caught:
        PoolSettings.model_validate(values)
    assert len(caught.value.errors()) == 1
    return first_error(caught.value, PoolSettings, source="pools")


def test_default_pool_is_whole():
    """D12: the default pool has two types, spot with on-demand, and launches in both zones."""
    pool = PoolSettings()
    check_pools([pool], region="us-east-1", zones=ZONES)
    assert len(pool.instance_types) >= 2
    assert {"spot", "on-demand"} <= set(pool.capacity_types)
    assert pool_zones(pool, region="us-east-1", zones=ZONES) == ZONES


@pytest.mark.parametrize("alias", ["al2023@latest", "bottlerocket@latest", "al2023@v2026", "al2@v20260903", "al2023"])
def test_unpinned_image_is_refused(alias):
    """An alias that can change its meaning is refused, with both forms that are allowed."""
    message = refused(ami_alias=alias)
    assert "al2023@vYYYYMMDD or bottlerocket@x.y.z" in message
    assert alias in message


@pytest.mark.parametrize("alias", ["al2023@v20260903", "bottlerocket@1.55.0"])
def test_pinned_image_is_taken(alias):
    """Dated and numbered releases are taken."""
    assert PoolSettings(ami_alias=alias).ami_alias == alias


def test_disk_below_200_gib_is_refused():
    """D11: images and weights need 200 GiB."""
    assert "200" in refused(disk_gib=100)
    assert PoolSettings().disk_gib >= 200


def test_one_type_needs_a_reason():
    """D12: fewer than two instance types is refused unless a sentence says why."""
    assert "narrow_reason" in refused(instance_types=["p4d.24xlarge"])
    assert PoolSettings(instance_types=("p4d.24xlarge",), narrow_reason=WHY)


def test_spot_alone_needs_a_reason():
    """D12: spot without on-demand in the same pool is refused unless a sentence says why."""
    assert "on-demand fallback" in refused(capacity_types=["spot"])
    assert PoolSettings(capacity_types=("spot",), narrow_reason=WHY)


def test_one_zone_needs_a_reason_and_must_exist():
    """D12: one zone needs a sentence, and must be one of the network's zones."""
    assert "narrow_reason" in refused(one_zone="us-east-1b")
    pool = PoolSettings(one_zone="us-east-1b", narrow_reason=WHY)
    check_pools([pool], region="us-east-1", zones=ZONES)
    assert pool_zones(pool, region="us-east-1", zones=ZONES) == ("us-east-1b",)
    stray = PoolSettings(one_zone="us-east-1f", narrow_reason=WHY)
    with pytest.raises(ConfigError, match="one_zone must be a zone of the network"):
        check_pools([stray], region="us-east-1", zones=ZONES)


def test_a_zone_where_a_type_is_missing_is_refused():
    """The one zone must offer each type: us-east-1a has no p4de."""
    pool = PoolSettings(one_zone="us-east-1a", narrow_reason=WHY)
    with pytest.raises(ConfigError, match=r"none of the zones us-east-1a offers p4de\.24xlarge; us-east-1b"):
        check_pools([pool], region="us-east-1", zones=ZONES)
    trusted = pool.model_copy(update={"zones_confirmed": True})
    check_pools([trusted], region="us-east-1", zones=ZONES)


def test_fewer_than_two_usable_zones_need_a_reason():
    """D12: types that only one of the network's zones offers are refused unless a sentence says why."""
    pool = PoolSettings(instance_types=("p4de.24xlarge", "p4d.24xlarge"))
    with pytest.raises(ConfigError, match="only eu-central-1c offers"):
        check_pools([pool], region="eu-central-1", zones=("eu-central-1c",))
    reasoned = pool.model_copy(update={"narrow_reason": WHY})
    check_pools([reasoned], region="eu-central-1", zones=("eu-central-1c",))


def test_a_region_without_the_type_is_refused():
    """The error names the regions that offer the type."""
    with pytest.raises(ConfigError, match=r"eu-west-1 does not offer p4de\.24xlarge.*us-west-2"):
        check_pools([PoolSettings()], region="eu-west-1", zones=("eu-west-1b", "eu-west-1c"))


def test_pools_share_names_and_budget():
    """Two pools of one name, and shares beyond the whole budget, are refused; two that fit are taken."""
    with pytest.raises(ConfigError, match="names must differ"):
        check_pools([PoolSettings(), PoolSettings()], region="us-east-1", zones=ZONES)
    with pytest.raises(ConfigError, match=r"add up to 1\.80"):
        check_pools([PoolSettings(), PoolSettings(name="more")], region="us-east-1", zones=ZONES)
    halves = [PoolSettings(budget_share=0.5), PoolSettings(name="more", budget_share=0.5)]
    check_pools(halves, region="us-east-1", zones=ZONES)


def test_an_expiry_always_has_an_end_to_the_drain():
    """D13: the end of a drain cannot be switched off, so no node waits for ever behind a disruption budget."""
    assert "termination_grace_s" in refused(termination_grace_s=None)
    assert PoolSettings(expire_after_h=None).termination_grace_s == 600


def test_reserved_capacity_names_its_reservations():
    """Capacity type 'reserved' without ids, and ids without it, are refused; both together are taken."""
    both = {"capacity_types": ["reserved", "spot", "on-demand"], "reservations": ["cr-0123456789abcdef0"]}
    assert "go together" in refused(capacity_types=both["capacity_types"])
    assert "go together" in refused(reservations=both["reservations"])
    assert PoolSettings.model_validate(both)


def test_unknown_type_and_key_name_the_nearest():
    """Slips of the pen are one error each with the nearest."""
    assert "p4d.24xlarge" in refused(instance_types=["p4d.24xlage", "p4de.24xlarge"])
    assert "did you mean disk_gib?" in refused(disk_gb=300)


def test_labels_that_karpenter_sets_are_refused():
    """A label of Karpenter's own would make the API server refuse the pool."""
    assert "karpenter.sh/nodepool" in refused(labels={"karpenter.sh/nodepool": "x"})
    assert PoolSettings(labels={"team": "search"}).labels == {"team": "search"}


def test_budget_too_small_for_one_node_says_the_numbers():
    """The error has the share, the price of a node and the budget that would do."""
    with pytest.raises(ConfigError, match=r"90% of a budget of 10,000 USD a month is 9,000 USD.*20,036 USD.*22,263"):
        pool_limits(PoolSettings(), region="us-east-1", budget_usd=10_000)
    enough = pool_limits(PoolSettings(), region="us-east-1", budget_usd=22_263)
    assert enough.gpus == 8


def test_limits_never_cost_more_than_the_share():
    """Whatever the budget, the dearest nodes that the limits allow cost no more on demand all month."""
    pool = PoolSettings(instance_types=("g5.xlarge", "g5.12xlarge", "g5.48xlarge"), budget_share=0.5)
    for budget in (3_000, 6_600, 12_000, 60_000, 1_000_000):
        limits = pool_limits(pool, region="us-east-1", budget_usd=budget)
        assert limits.usd_per_month is not None
        assert limits.usd_per_month <= budget * 0.5 + 1e-6


def test_nodes_limit_what_the_budget_allows():
    """max_nodes lowers the limits, and never raises them."""
    rich = pool_limits(PoolSettings(max_nodes=1), region="us-east-1", budget_usd=1_000_000)
    assert (rich.gpus, rich.vcpus) == (8, 96)
    poor = pool_limits(PoolSettings(max_nodes=100), region="us-east-1", budget_usd=60_000)
    assert poor.gpus == 16


def test_max_nodes_serves_regions_without_a_price():
    """Where the table has no price a budget says nothing about nodes: max_nodes does, and its absence is refused."""
    pool = PoolSettings(instance_types=("g5.xlarge", "g5.2xlarge"))
    with pytest.raises(ConfigError, match="max_nodes"):
        pool_limits(pool, region="eu-west-1", budget_usd=10_000)
    limits = pool_limits(pool.model_copy(update={"max_nodes": 3}), region="eu-west-1", budget_usd=10_000)
    assert (limits.gpus, limits.usd_per_month) == (3, None)


def test_versions_of_components_are_pinned():
    """'latest' is no version of a chart or tool."""
    with pytest.raises(ValidationError, match="pattern"):
        ComponentSettings.model_validate({"keda": {"version": "latest"}})
    with pytest.raises(ValidationError, match="pattern"):
        ComponentSettings.model_validate({"tools": {"helm": {"version": "3.20.0", "sha256": "abc"}}})


def test_gpu_pools_need_the_device_plugin():
    """D10: the device plugin cannot be switched off, and Karpenter neither."""
    for name in ("device_plugin", "karpenter"):
        changed = getattr(ComponentSettings(), name).model_copy(update={"enabled": False})
        with pytest.raises(ConfigError, match=f"components.{name} cannot be off"):
            check_components(
                ComponentSettings().model_copy(update={name: changed}), kubernetes_version="1.35", has_edge=False
            )
    check_components(ComponentSettings(), kubernetes_version="1.35", has_edge=False)


def test_kubectl_fits_the_cluster():
    """kubectl is at most one minor version away from the cluster."""
    check_components(ComponentSettings(), kubernetes_version="1.36", has_edge=False)
    with pytest.raises(ConfigError, match="within one minor version"):
        check_components(ComponentSettings(), kubernetes_version="1.37", has_edge=False)


def test_an_edge_needs_the_load_balancer_controller():
    """Without the controller an edge would have no targets."""
    with pytest.raises(ConfigError, match="load_balancer_controller"):
        check_components(ComponentSettings(), kubernetes_version="1.35", has_edge=True)

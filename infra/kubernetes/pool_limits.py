"""How many GPUs and CPUs a node pool may hold, from the budget and the price table.

Knows no framework and no Kubernetes. Invariant: the dearest on-demand node that the limits allow, run all month, costs
no more than the pool's share of the budget. Spot is cheaper, so a limit counted in on-demand prices holds when the
fallback runs all month.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eagle3.errors import ConfigError
from infra.catalogue.gpu_instances import gpu_instance
from infra.catalogue.prices import HOURS_PER_MONTH, find_price, price
from infra.settings.pools import PoolSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolLimits:
    """`spec.limits` of a NodePool, and what they can cost."""

    gpus: int
    """GPUs at most (`nvidia.com/gpu`)."""
    vcpus: int
    """Virtual CPUs at most (`cpu`)."""
    usd_per_month: float | None
    """What these GPUs cost on demand all month; None where the table has no price for the region."""


def pool_limits(pool: PoolSettings, *, region: str, budget_usd: float) -> PoolLimits:
    """Limits of a pool; `budget_usd` is the stack's budget of a month. ConfigError where not one node fits."""
    instances = [gpu_instance(name) for name in pool.instance_types]
    smallest = min(instances, key=lambda instance: instance.gpus)
    ceiling = None if pool.max_nodes is None else pool.max_nodes * max(instance.gpus for instance in instances)
    # max_nodes alone is enough where the price table does not reach.
    if ceiling is not None and any(find_price(name, region) is None for name in pool.instance_types):
        return _limits(pool, ceiling, usd_per_gpu_hour=None)
    usd_per_gpu_hour = max(price(name, region).usd / gpu_instance(name).gpus for name in pool.instance_types)
    share = budget_usd * pool.budget_share
    affordable = math.floor(share / (usd_per_gpu_hour * HOURS_PER_MONTH) + 1e-9)
    gpus = affordable if ceiling is None else min(affordable, ceiling)
    # A part of a node cannot be launched.
    gpus -= gpus % math.gcd(*(instance.gpus for instance in instances))
    if gpus < smallest.gpus:
        needed = usd_per_gpu_hour * smallest.gpus * HOURS_PER_MONTH
        raise ConfigError(
            f"pool {pool.name}: {pool.budget_share:.0%} of a budget of {budget_usd:,.0f} USD a month is "
            f"{share:,.0f} USD, and one node of {smallest.gpus} GPUs costs up to {needed:,.0f} USD on demand in "
            f"{region}; raise the budget to {math.ceil(needed / pool.budget_share):,} USD or choose smaller instance "
            "types"
        )
    return _limits(pool, gpus, usd_per_gpu_hour=usd_per_gpu_hour)


def _limits(pool: PoolSettings, gpus: int, *, usd_per_gpu_hour: float | None) -> PoolLimits:
    vcpus = max(
        gpus // instance.gpus * instance.vcpus for instance in (gpu_instance(name) for name in pool.instance_types)
    )
    cost = None if usd_per_gpu_hour is None else gpus * usd_per_gpu_hour * HOURS_PER_MONTH
    return PoolLimits(gpus=gpus, vcpus=vcpus, usd_per_month=cost)

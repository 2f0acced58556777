"""GPU machines of a node pool: which type is bought how, and how many.

Knows no other item. Invariant: on-demand machines are of the pool's cheapest type a GPU that holds a replica, as
Karpenter chooses; spot machines likewise by the spot price, though Karpenter weighs capacity too.
"""

from __future__ import annotations

from infra.catalogue.gpu_instances import GpuInstance, gpu_instance
from infra.catalogue.price import Purchase
from infra.estimate.assumptions import DEFAULT_SPOT_SHARE, Assumptions
from infra.estimate.book import Book
from infra.estimate.item import Item
from infra.kubernetes.pool_limits import pool_limits
from infra.settings.pools import PoolSettings

_NAMES: dict[Purchase, str] = {"on-demand": "on demand", "spot": "spot", "plan-1y": "plan, 1y", "plan-3y": "plan, 3y"}


def spot_share_of(pool: PoolSettings, asked: float | None) -> float:
    """Share of a pool's hours that is spot: what is asked for, as far as the pool's capacity types allow."""
    if "spot" not in pool.capacity_types:
        return 0.0
    if set(pool.capacity_types) == {"spot"}:
        return 1.0
    return DEFAULT_SPOT_SHARE if asked is None else asked


def pool_items(
    pool: PoolSettings, *, region: str, budget_usd: float, gpus_of_replica: int, book: Book, assumptions: Assumptions
) -> list[Item]:
    """Machines of a pool by how they are bought, and their disks and metrics; ConfigError where nothing says how many.

    Counts are averages over the month: a share of 0.7 of two machines is 1.4 machines.
    """
    share = spot_share_of(pool, assumptions.spot_share)
    steady = _cheapest(pool, region, "on-demand", gpus_of_replica, book)
    count = assumptions.machines
    if count is None:
        count = pool_limits(pool, region=region, budget_usd=budget_usd).gpus // steady.gpus
    counted = f"{count} machines" if assumptions.machines is not None else f"{count} machines, all the budget allows"
    parts: tuple[tuple[Purchase, float], ...] = ((assumptions.on_demand, 1 - share), ("spot", share))
    items = [
        Item(
            group="compute",
            name=f"pool {pool.name}: {_bought(pool, region, purchase, gpus_of_replica, book).name}, {_NAMES[purchase]}",
            price=_bought(pool, region, purchase, gpus_of_replica, book).name,
            quantity=count * part,
            counted=counted,
            purchase=purchase,
            scheduled=True,
            main=True,
        )
        for purchase, part in parts
        if part > 0
    ]
    disks = pool.disk_gib + (4 if pool.is_bottlerocket else 0)
    return [
        *items,
        Item(
            group="compute",
            name=f"pool {pool.name}: disks (gp3)",
            price="ebs-gp3",
            quantity=count * disks * assumptions.hours_per_day / 24,
            counted=f"{count} x {disks} GiB",
        ),
        Item(
            group="observability",
            name=f"pool {pool.name}: detailed monitoring",
            price="cloudwatch-metric",
            quantity=7 * count,
            counted=f"7 metrics x {count} machines",
            scheduled=True,
        ),
    ]


def _bought(pool: PoolSettings, region: str, purchase: Purchase, gpus: int, book: Book) -> GpuInstance:
    return _cheapest(pool, region, "spot" if purchase == "spot" else "on-demand", gpus, book)


def _cheapest(pool: PoolSettings, region: str, purchase: Purchase, gpus: int, book: Book) -> GpuInstance:
    """The cheapest type a GPU of those that hold a replica; the pool's first where no price is known."""
    every = [gpu_instance(name) for name in pool.instance_types]
    fitting = [instance for instance in every if instance.gpus >= gpus] or every
    known = [
        (price.usd / instance.gpus, instance)
        for instance in fitting
        if (price := book.find(instance.name, region, purchase)) is not None
    ]
    return min(known, key=lambda pair: pair[0])[1] if known else fitting[0]

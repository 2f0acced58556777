"""Settings of the GPU node pools that Karpenter runs.

Knows no stack and no account. Invariant: a pool that passed `check_pools` can launch: every type exists in the region
and in one of its zones, there is a second choice of type, zone and capacity unless a reason says why not, and no node
outlives its expiry without an end to its drain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from eagle3.errors import ConfigError
from infra.catalogue.gpu_instances import gpu_instance, offered_zones, regions_offering
from infra.settings.section import Section

CapacityType = Literal["reserved", "spot", "on-demand"]

_AL2023 = re.compile(r"al2023@v20\d{6}")
_BOTTLEROCKET = re.compile(r"bottlerocket@v?\d+\.\d+\.\d+")
# Karpenter sets these itself and refuses them in a template.
_RESERVED_LABELS = ("karpenter.sh/", "karpenter.k8s.aws/", "kubernetes.io/hostname")


class Taint(Section):
    """A taint of the pool's nodes."""

    key: str = Field(default="nvidia.com/gpu", min_length=1, description="key of the taint")
    value: str = Field(default="present", description="value of the taint")
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = Field(
        default="NoSchedule", description="what happens to pods that do not tolerate it"
    )


class PoolSettings(Section):
    """One Karpenter NodePool with its EC2NodeClass."""

    name: str = Field(
        default="gpu", pattern=r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$", description="name of the pool and its node class"
    )
    instance_types: tuple[str, ...] = Field(
        default=("p4d.24xlarge", "p4de.24xlarge"), min_length=1, description="EC2 types that a node may be"
    )
    capacity_types: tuple[CapacityType, ...] = Field(
        default=("spot", "on-demand"),
        min_length=1,
        description="how capacity is bought, tried as reserved, spot, on-demand",
    )
    reservations: tuple[Annotated[str, StringConstraints(pattern=r"^cr-[0-9a-z]+$")], ...] = Field(
        default=(), description="ids of capacity reservations for capacity type 'reserved'"
    )
    budget_share: float = Field(
        default=0.9, gt=0, le=1, description="share of the stack's monthly budget that the pool may spend, 0 to 1"
    )
    max_nodes: int | None = Field(default=None, ge=1, description="nodes at most; null: only the budget limits them")
    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] = Field(
        default="WhenEmptyOrUnderutilized", description="which nodes Karpenter may take away or replace"
    )
    consolidate_after_s: int = Field(default=60, ge=0, description="seconds without change before consolidation")
    expire_after_h: int | None = Field(
        default=336, ge=1, description="hours after which a node is replaced; null: never"
    )
    termination_grace_s: int = Field(
        default=600, ge=120, le=86_400, description="seconds after which a draining node ends whatever blocks it"
    )
    one_zone: str | None = Field(
        default=None, description="zone that keeps GPU nodes and their storage together; null: every zone"
    )
    narrow_reason: str | None = Field(
        default=None, min_length=12, description="why one instance type, zone or capacity type is enough, in a sentence"
    )
    zones_confirmed: bool = Field(
        default=False,
        description="the zones were checked in this account (zone letters differ between accounts), so trust them",
    )
    ami_alias: str = Field(
        default="al2023@v20260903", description="pinned image: al2023@vYYYYMMDD or bottlerocket@x.y.z"
    )
    disk_gib: int = Field(default=200, ge=200, le=16_384, description="GiB of the disk that holds images and weights")
    instance_store: Literal["RAID0"] | None = Field(
        default="RAID0", description="local NVMe disks joined as the node's ephemeral storage; null: left unused"
    )
    taints: tuple[Taint, ...] = Field(
        default_factory=lambda: (Taint(),), description="taints that keep other pods away from GPU nodes"
    )
    labels: dict[str, str] = Field(default_factory=dict, description="further labels of the nodes")

    @field_validator("instance_types")
    @classmethod
    def _known_types(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            raise ValueError("an instance type stands twice; name each once")
        for name in value:
            try:
                gpu_instance(name)
            except ConfigError as error:
                raise ValueError(str(error)) from error
        return value

    @field_validator("capacity_types")
    @classmethod
    def _each_once(cls, value: tuple[CapacityType, ...]) -> tuple[CapacityType, ...]:
        if len(set(value)) != len(value):
            raise ValueError("a capacity type stands twice; name each once")
        return value

    @field_validator("ami_alias")
    @classmethod
    def _pinned(cls, value: str) -> str:
        if not (_AL2023.fullmatch(value) or _BOTTLEROCKET.fullmatch(value)):
            raise ValueError(
                "an AMI alias is pinned: al2023@vYYYYMMDD or bottlerocket@x.y.z; '@latest' would replace every node "
                "on the day of a new image"
            )
        return value

    @field_validator("labels")
    @classmethod
    def _own_labels(cls, value: dict[str, str]) -> dict[str, str]:
        taken = sorted(key for key in value if key.startswith(_RESERVED_LABELS))
        if taken:
            raise ValueError(f"Karpenter sets {', '.join(taken)} itself; take another label")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if ("reserved" in self.capacity_types) != bool(self.reservations):
            raise ValueError("capacity type 'reserved' and reservations go together; give both or neither")
        if self.narrow_reason is None:
            if len(self.instance_types) < 2:
                raise ValueError(
                    "one instance type leaves no second choice when its capacity is gone; name two, or say in "
                    "narrow_reason why one is enough"
                )
            if self.one_zone is not None:
                raise ValueError("one_zone leaves no second zone; say in narrow_reason why one is enough")
            if not {"spot", "on-demand"} <= set(self.capacity_types) and "reserved" not in self.capacity_types:
                raise ValueError(
                    "spot with an on-demand fallback needs both in one pool; name both, or say in narrow_reason why "
                    "one is enough"
                )
        return self

    @property
    def is_bottlerocket(self) -> bool:
        """Whether nodes run Bottlerocket, which keeps images on its second disk."""
        return self.ami_alias.startswith("bottlerocket@")


def check_pools(pools: Sequence[PoolSettings], *, region: str, zones: Sequence[str]) -> None:
    """Whether every pool can launch in a region and the network's zones; call it when both are known."""
    names = [pool.name for pool in pools]
    if len(set(names)) != len(names):
        raise ConfigError(f"pools: names must differ; got {', '.join(names)}; rename one")
    share = sum(pool.budget_share for pool in pools)
    if share > 1 + 1e-9:
        raise ConfigError(
            f"pools: their budget_share add up to {share:.2f}; together they may spend 1 at most; lower one"
        )
    for pool in pools:
        _check_pool(pool, region=region, zones=zones)


def pool_zones(pool: PoolSettings, *, region: str, zones: Sequence[str]) -> tuple[str, ...]:
    """Zones of the network in which the pool can launch, in the network's order."""
    if pool.one_zone is not None:
        return (pool.one_zone,)
    if pool.zones_confirmed:
        return tuple(zones)
    offering = {zone for name in pool.instance_types for zone in offered_zones(name, region)}
    return tuple(zone for zone in zones if zone in offering)


def _check_pool(pool: PoolSettings, *, region: str, zones: Sequence[str]) -> None:
    if pool.one_zone is not None and pool.one_zone not in zones:
        raise ConfigError(
            f"pool {pool.name}: one_zone must be a zone of the network ({', '.join(zones)}); got {pool.one_zone!r}"
        )
    allowed = (pool.one_zone,) if pool.one_zone is not None else tuple(zones)
    for name in pool.instance_types:
        offered = offered_zones(name, region)
        if not offered:
            raise ConfigError(
                f"pool {pool.name}: {region} does not offer {name}; regions that do: "
                f"{', '.join(regions_offering(name))}; take one of them or another instance type"
            )
        if not pool.zones_confirmed and not set(offered) & set(allowed):
            raise ConfigError(
                f"pool {pool.name}: none of the zones {', '.join(allowed)} offers {name}; {', '.join(offered)} do; "
                "choose the network's zones so, or set zones_confirmed where this account's letters differ"
            )
    usable = pool_zones(pool, region=region, zones=zones)
    if len(usable) < 2 and pool.narrow_reason is None:
        raise ConfigError(
            f"pool {pool.name}: only {', '.join(usable)} offers its instance types; two zones are needed to survive "
            "the loss of one; add a zone or a type, or say in narrow_reason why one is enough"
        )

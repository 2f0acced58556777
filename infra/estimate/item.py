"""What a stack is billed for, counted, without a price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from infra.catalogue.price import Purchase

Group = Literal["compute", "network", "keys and storage", "observability", "edge"]
GROUPS: tuple[Group, ...] = ("compute", "network", "keys and storage", "observability", "edge")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One line of the bill."""

    group: Group
    name: str
    """What people call it."""
    price: str
    """Item of the price table."""
    quantity: float | None
    """How many units a month; for prices by the hour or the month, how many things. None: nobody can say."""
    counted: str = ""
    """Where the quantity comes from, such as "12 services x 2 zones"."""
    purchase: Purchase = "on-demand"
    """How it is bought."""
    scheduled: bool = False
    """Whether it is billed only in the hours that the GPU machines run."""
    main: bool = False
    """Whether an estimate without its price is worth nothing."""

"""Where an estimate looks prices up: the dated table, or one that knows newer prices of some items."""

from __future__ import annotations

from typing import Protocol

from infra.catalogue.price import Price, Purchase
from infra.catalogue.prices import find_price


class Book(Protocol):
    """Prices by item, region and purchase."""

    def find(self, item: str, region: str, purchase: Purchase) -> Price | None:
        """The price, or None where it is unknown."""


class Table:
    """The dated table of the catalogue."""

    def find(self, item: str, region: str, purchase: Purchase) -> Price | None:
        """As the catalogue has it."""
        return find_price(item, region, purchase)

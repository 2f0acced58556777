"""What a rehearsal left behind in the local AWS.

Compares two inventories and knows no service. Invariant: what was there at the start is never reported.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from infra.rehearsal.local_aws import Item

_SHOWN = 5


def leftovers(before: AbstractSet[Item], after: AbstractSet[Item]) -> tuple[Item, ...]:
    """Resources that came and did not go, sorted; one that changed its name in place is none."""
    known = {(item.service, item.region, item.key) for item in before}
    return tuple(sorted(item for item in after if (item.service, item.region, item.key) not in known))


def describe(items: tuple[Item, ...]) -> str:
    """Leftovers as one line: the first few by name, then a number."""
    named = ", ".join(str(item) for item in items[:_SHOWN])
    more = len(items) - _SHOWN
    return f"{named} and {more} more" if more > 0 else named

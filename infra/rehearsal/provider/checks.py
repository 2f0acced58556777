"""Faults of a configuration that the schema alone does not show.

Terraform itself refuses unknown attributes, wrong types and missing ones by the schema. Left for here is what excludes
each other. Knows no resource type. Invariant: an unknown value is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infra.rehearsal.provider.schema import Block

Problem = tuple[str, str, tuple[str, ...]]


def problems(type_: str, block: Block, config: Mapping[str, Any]) -> list[Problem]:
    """Summary, detail and path of every fault."""
    return list(_exclusive(type_, block, config))


def _exclusive(type_: str, block: Block, config: Mapping[str, Any]) -> Iterator[Problem]:
    """A name and its prefix exclude each other."""
    for prefix in block.attributes:
        name = prefix.removesuffix("_prefix")
        if name != prefix and config.get(prefix) is not None and config.get(name) is not None:
            yield f"{type_}: {name} and {prefix} exclude each other", f"Set {name} or {prefix}, not both.", (prefix,)

"""What a resource type, data source or provider accepts: attributes and nested blocks, as Terraform means them.

Knows neither the bindings nor the wire. A type is Terraform's own notation: "string", ["set", "string"],
["list", ["object", {"data": "string"}]]. Invariant: an attribute is required, optional or computed, or optional and
computed; nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Nesting = Literal["single", "list", "set"]
Type = Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribute:
    """One attribute."""

    type: Type
    required: bool = False
    optional: bool = False
    computed: bool = False

    def __post_init__(self) -> None:
        assert self.required or self.optional or self.computed, "an attribute is required, optional or computed"
        assert not (self.required and (self.optional or self.computed)), "a required attribute is nothing else"


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A body: of a resource type, or of a nested block."""

    attributes: Mapping[str, Attribute] = field(default_factory=lambda: MappingProxyType({}))
    blocks: Mapping[str, Nested] = field(default_factory=lambda: MappingProxyType({}))

    def to_json(self) -> dict[str, Any]:
        """As the cache keeps it."""
        return {
            "attributes": {
                name: [each.type, "r" * each.required + "o" * each.optional + "c" * each.computed]
                for name, each in self.attributes.items()
            },
            "blocks": {
                name: [each.nesting, each.minimum, each.maximum, each.block.to_json()]
                for name, each in self.blocks.items()
            },
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Block:
        """What `to_json` wrote."""
        return Block(
            attributes={
                name: Attribute(type=type_, required="r" in flags, optional="o" in flags, computed="c" in flags)
                for name, (type_, flags) in value["attributes"].items()
            },
            blocks={
                name: Nested(nesting=nesting, minimum=minimum, maximum=maximum, block=Block.from_json(block))
                for name, (nesting, minimum, maximum, block) in value["blocks"].items()
            },
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Nested:
    """A nested block: how often it may stand in its parent, and its own body."""

    nesting: Nesting
    minimum: int = 0
    maximum: int = 0
    """0: as many as one likes."""
    block: Block

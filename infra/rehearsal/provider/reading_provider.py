"""The schema of the provider's own configuration, read out of the bindings' source text.

The provider's class has no class of references for its blocks, so they are read from the tables that the bindings write
HCL from: `name: { value, isBlock, type, storageClassType }`. Invariant: as in `reading`, what is not understood is an
error.
"""

from __future__ import annotations

import re

from infra.rehearsal.provider.reading import source_text
from infra.rehearsal.provider.schema import Attribute, Block, Nested, Nesting, Type

_ENTRY = re.compile(
    r"^\s+(\w+): \{\n\s+value: (.*),\n\s+isBlock: (true|false),\n\s+type: \"(\w+)\",\n\s+storageClassType: \"(\w+)\",",
    re.MULTILINE,
)
_TABLE = re.compile(r"function (\w+ToHclTerraform)\(|synthesizeHclAttributes\(\)")
_SIMPLE: dict[str, Type] = {"string": "string", "number": "number", "boolean": "bool"}
_NESTINGS: dict[str, Nesting] = {"list": "list", "set": "set", "struct": "single"}


def read_provider(javascript: str) -> Block:
    """The body of `provider "aws"`."""
    text = source_text(javascript)
    starts = list(_TABLE.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    tables = {match[1] or "": text[match.start() : end] for match, end in zip(starts, ends, strict=True)}
    return _body(tables, "")


def _body(tables: dict[str, str], name: str) -> Block:
    attributes: dict[str, Attribute] = {}
    blocks: dict[str, Nested] = {}
    for member, value, is_block, kind, storage in _ENTRY.findall(tables[name]):
        if is_block == "false":
            attributes[member] = Attribute(type=_type(member, kind, storage), optional=True)
            continue
        inner = re.search(r"\w+ToHclTerraform", value)
        assert inner is not None, f"the block {member} names no table: {value}"
        nesting = _NESTINGS[kind]
        blocks[member] = Nested(nesting=nesting, block=_body(tables, inner[0]))
    return Block(attributes=attributes, blocks=blocks)


def _type(member: str, kind: str, storage: str) -> Type:
    if kind == "simple":
        return _SIMPLE[storage]
    element = _SIMPLE[re.sub(r"(List|Map)$", "", storage)]
    assert kind in ("list", "set", "map"), f"{member} has the unknown type {kind}"
    return [kind, element]

"""Values and schemas as Terraform's plugin protocol carries them.

Knows the protocol's encodings (msgpack with an extension for unknown, schemas as protobuf messages) and no resource
type. An unknown value is kept as the extension object it came as, since Terraform may refine it ("not null") and wants
it back as it was. Invariant: `decode(encode(value)) == value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import msgpack  # type: ignore[import-untyped]
from tf.gen import tfplugin_pb2 as pb

from infra.rehearsal.provider import shapes
from infra.rehearsal.provider.schema import Block, Type

UNKNOWN = msgpack.ExtType(0, b"\x00")
_NESTING = {
    "single": pb.Schema.NestedBlock.NestingMode.SINGLE,
    "list": pb.Schema.NestedBlock.NestingMode.LIST,
    "set": pb.Schema.NestedBlock.NestingMode.SET,
}


def is_unknown(value: Any) -> bool:
    """Whether a value is not known until apply."""
    return isinstance(value, msgpack.ExtType)


def decode(value: Any) -> Any:
    """What a message holds: None, or an object."""
    if value.msgpack:
        return msgpack.unpackb(value.msgpack, strict_map_key=False)
    return json.loads(value.json) if value.json else None


def encode(value: Any) -> Any:
    """A value as a message."""
    return pb.DynamicValue(msgpack=msgpack.packb(value))


def schema_message(block: Block) -> Any:
    """A body as the schema that Terraform asks for."""
    return pb.Schema(version=0, block=_block_message(block))


def diagnostic(summary: str, detail: str = "", path: Sequence[str] = ()) -> Any:
    """An error; Terraform adds the address of the resource."""
    steps = [pb.AttributePath.Step(attribute_name=name) for name in path]
    attribute = pb.AttributePath(steps=steps) if steps else None
    return pb.Diagnostic(severity=pb.Diagnostic.ERROR, summary=summary, detail=detail, attribute=attribute)


def plain(value: Any) -> Any:
    """A value without anything of the protocol: unknown is None, and a value of any type is the value alone."""
    if is_unknown(value):
        return None
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[0], bytes):
            return plain(value[1])
        return [plain(each) for each in value]
    return value


def conform(type_: Type, value: Any) -> Any:
    """A value of an answer as an attribute of that type; object fields are taken from members of the same name."""
    if value is None or is_unknown(value):
        return value
    if isinstance(type_, str):
        return _simple(type_, value)
    kind, inner = type_
    if kind in ("list", "set"):
        items = [conform(inner, each) for each in (value if isinstance(value, list) else [value])]
        return [each for each in items if each is not None]
    if not isinstance(value, Mapping):
        return None
    if kind == "map":
        return {str(name): conform(inner, each) for name, each in value.items()}
    assert kind == "object", f"no attribute has the type {kind}"
    members = {shapes.snake(name): each for name, each in value.items()}
    return {name: conform(each, members.get(name)) for name, each in inner.items()}


def _simple(type_: str, value: Any) -> Any:
    if isinstance(value, (Mapping, list)):
        return None
    if type_ == "number":
        return (
            float(value) if isinstance(value, str) and "." in value else int(value) if isinstance(value, str) else value
        )
    if type_ == "bool":
        return value if isinstance(value, bool) else str(value).lower() == "true"
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


def _block_message(block: Block) -> Any:
    return pb.Schema.Block(
        attributes=[
            pb.Schema.Attribute(
                name=name,
                type=json.dumps(each.type).encode(),
                required=each.required,
                optional=each.optional,
                computed=each.computed,
            )
            for name, each in sorted(block.attributes.items())
        ],
        block_types=[
            pb.Schema.NestedBlock(
                type_name=name,
                block=_block_message(each.block),
                nesting=_NESTING[each.nesting],
                min_items=each.minimum if each.nesting != "single" else 0,
                max_items=each.maximum,
            )
            for name, each in sorted(block.blocks.items())
        ],
    )

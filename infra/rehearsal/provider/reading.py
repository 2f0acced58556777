"""Schemas read out of the source text of the bindings' classes.

Knows one thing: how cdktf (and cdktn) write a provider's schema down as TypeScript. Every attribute stands under a
comment `// name - computed: c, optional: o, required: r`; the getter or field below it says its type, and a class of
references says how a nested block is repeated. A nested block that is computed is not a block but an attribute of
objects, as in Terraform itself. Invariant: a line that is not understood is an error, never a guess.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from infra.rehearsal.provider.schema import Attribute, Block, Nested, Nesting, Type

_CLASS = re.compile(r"^export class (\w+) extends cdkt[fn]\.(\w+) \{$", re.MULTILINE)
_MEMBER = re.compile(
    r"^  // (\w+) - computed: (\w+), optional: (\w+), required: (\w+)\n(.*)\n(?:(.*)\n)?(?:(.*)\n)?", re.M
)
_REFERENCE = re.compile(r"private _\w+ = new (\w+)\(this, \"\w+\"(?:, (true|false))?\);")
_SUPER = re.compile(r"super\(terraformResource, terraformAttribute, (\w+)(?:, (\w+))?\)")
_RETURN = re.compile(r"return (.*);")

# What a getter calls says the type; with Fn.tolist around it, it is a set.
_GETTERS: dict[str, Type] = {
    "getStringAttribute": "string",
    "getNumberAttribute": "number",
    "getBooleanAttribute": "bool",
    "getListAttribute": ["list", "string"],
    "getNumberListAttribute": ["list", "number"],
    "getStringMapAttribute": ["map", "string"],
    "getNumberMapAttribute": ["map", "number"],
    "getBooleanMapAttribute": ["map", "bool"],
}
_MAPS: dict[str, Type] = {"StringMap": "string", "NumberMap": "number", "BooleanMap": "bool", "AnyMap": "dynamic"}


@dataclass(frozen=True, slots=True)
class _Repeat:
    """How a class of references is repeated."""

    nesting: Nesting
    one: bool
    element: str
    """The class that holds the members."""


class Source:
    """The classes of one module of the bindings."""

    def __init__(self, text: str) -> None:
        starts = list(_CLASS.finditer(text))
        ends = [match.start() for match in starts[1:]] + [len(text)]
        self._classes = {match[1]: text[match.start() : end] for match, end in zip(starts, ends, strict=True)}
        self._bases = {match[1]: match[2] for match in starts}

    def root(self) -> tuple[str, Block]:
        """The module's resource, data source or provider: its Terraform type and body."""
        for name, base in self._bases.items():
            if base in ("TerraformResource", "TerraformDataSource"):
                found = re.search(r'tfResourceType = "(\w+)"', self._classes[name])
                assert found is not None, f"{name} names no Terraform type"
                return found[1], self._body(name)
        raise AssertionError(f"no resource among {sorted(self._classes)}")

    def _body(self, name: str) -> Block:
        attributes: dict[str, Attribute] = {}
        blocks: dict[str, Nested] = {}
        for match in _MEMBER.finditer(self._classes[name]):
            member, lines = match[1], [line.strip() for line in match.groups()[4:] if line]
            computed, optional, required = (flag == "true" for flag in match.groups()[1:4])
            flags = {"computed": computed, "optional": optional, "required": required}
            reference = _REFERENCE.match(lines[0])
            if reference is None or reference[1] not in self._classes:
                attributes[member] = Attribute(type=_simple_type(name, member, lines), **flags)
            else:
                repeat = self._repeat(reference[1], reference[2])
                if computed:
                    attributes[member] = Attribute(type=self._object_type(repeat), **flags)
                else:
                    blocks[member] = Nested(
                        nesting=repeat.nesting,
                        minimum=int(required),
                        maximum=int(repeat.one and repeat.nesting != "single"),
                        block=self._body(repeat.element),
                    )
        return Block(attributes=attributes, blocks=blocks)

    def _repeat(self, name: str, wraps_set: str | None) -> _Repeat:
        if self._bases[name] == "ComplexObject":
            found = _SUPER.search(self._classes[name])
            assert found is not None, f"{name} does not say how it is repeated"
            nesting: Nesting = "single" if found[2] is None else "set" if found[1] == "true" else "list"
            return _Repeat(nesting, True, name)
        assert self._bases[name] == "ComplexList", f"{name} is a {self._bases[name]}"
        return _Repeat("set" if wraps_set == "true" else "list", False, name.removesuffix("List") + "OutputReference")

    def _object_type(self, repeat: _Repeat) -> Type:
        whole: Type = ["object", _fields(self._body(repeat.element))]
        return whole if repeat.nesting == "single" else [repeat.nesting, whole]


def source_text(javascript: str) -> str:
    """The source of a compiled module, out of the map at its end."""
    source_map: dict[str, Any] = json.loads(base64.b64decode(javascript.rsplit("base64,", 1)[1].strip()))
    text: str = source_map["sourcesContent"][0]
    return text


def read_module(javascript: str) -> tuple[str, Block]:
    """The Terraform type of a module and its body."""
    return Source(source_text(javascript)).root()


def _simple_type(owner: str, member: str, lines: list[str]) -> Type:
    """The type of an attribute that is no block, from its field and getter."""
    field = re.match(r"private _\w+ = new cdkt[fn]\.(\w+)\(this", lines[0])
    if field is not None:
        return ["map", _MAPS[field[1]]]
    returned = next((found[1] for line in lines if (found := _RETURN.match(line))), "")
    getter = next((name for name in _GETTERS if f"this.{name}(" in returned), None)
    if getter is not None:
        type_ = _GETTERS[getter]
        return ["set", type_[1]] if "Fn.tolist(" in returned else type_
    if "{ [key: string]: string }[]" in lines[0]:
        return ["list", ["map", "string"]]
    assert "interpolationForAttribute" in returned, f"{owner}.{member} is not understood: {lines}"
    return "dynamic"


def _fields(block: Block) -> dict[str, Type]:
    fields: dict[str, Type] = {name: each.type for name, each in block.attributes.items()}
    for name, nested in block.blocks.items():
        inner: Type = ["object", _fields(nested.block)]
        fields[name] = inner if nested.nesting == "single" else [nested.nesting, inner]
    return fields

"""Deeply nested requests from blocks, where an empty block means something.

`shapes` leaves out what is empty. Firewalls and distributions need it: `default_action { allow {} }` is the request
`{"Allow": {}}`, and lists come as `{"Quantity": 2, "Items": [...]}`. Knows botocore's shapes, no service. Invariant: a
block that is there is in the request, one that is not is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import botocore.session

from infra.rehearsal.provider.shapes import Exactly, convert


def request(service: str, shape: str, value: Any) -> Exactly:
    """A value of one of the service's shapes, such as WAFV2's "DefaultAction", out of blocks."""
    return Exactly(_build(_model(service).shape_for(shape), value))


@cache
def _model(service: str) -> Any:
    return botocore.session.Session().get_service_model(service)


def _build(shape: Any, value: Any) -> Any:
    if shape.type_name == "structure":
        counted = {"Quantity", "Items"} <= shape.members.keys()
        if counted and isinstance(value, list) and not _is_block(value):
            items = [_build(shape.members["Items"].member, each) for each in value]
            return {"Quantity": len(items), **({"Items": items} if items else {})}
        block = value[0] if isinstance(value, list) else value
        built = _members(shape, block)
        return {**built, "Quantity": len(built.get("Items", ()))} if counted else built
    if shape.type_name == "list":
        values = value if isinstance(value, list) else [value]
        return [_build(shape.member, each) for each in values]
    return convert(shape, value)


def _members(shape: Any, block: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {_bare(name): value for name, value in (block or {}).items()}
    built = {}
    for member, inner in shape.members.items():
        value = names.get(_bare(member))
        if value is None and inner.type_name == "list":
            value = names.get(_bare(member).removesuffix("s"))
        if value is None or value in ("", []):
            continue
        built[member] = _build(inner, value)
    return built


def _is_block(value: list[Any]) -> bool:
    """Whether a list is one block that holds its items, not the items themselves."""
    return len(value) == 1 and isinstance(value[0], Mapping) and "items" in value[0]


def _bare(name: str) -> str:
    return name.replace("_", "").lower()

"""Values of attributes as the requests of a service want them, by walking botocore's models of input shapes.

Knows nothing of a resource type: a member is filled from the attribute whose name, without case and underscores, is the
same (`KMSKeyId`, `kmsKeyId` and `kms_key_id` are one name; `SubnetId` takes `subnet_ids` where it is a list). A list of
one block fills a structure. Invariant: None, empty texts, lists and blocks are left out, since Terraform writes them
for "not set".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

_TAG_MEMBERS = frozenset({"tags", "taglist", "tagslist", "tagset"})


@dataclass(frozen=True, slots=True)
class Exactly:
    """A value that goes into the request as it is, empty structures and texts included."""

    value: Any


def snake(member: str) -> str:
    """`KMSKeyId` to `kms_key_id`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", member).lower()


def structure(shape: Any, state: Mapping[str, Any], omit: Collection[str] = ()) -> dict[str, Any]:
    """Members of a structure that attributes of the same name fill."""
    names = {_bare(name): value for name, value in state.items()}
    filled = {}
    for member, inner in shape.members.items():
        if member in omit:
            continue
        if _bare(member) in _TAG_MEMBERS and "tagsall" in names:
            value = tags(inner, names["tagsall"])
        elif member == "TagSpecifications" and names.get("tagsall"):
            continue
        else:
            value = convert(inner, _named(names, member, inner))
        if value not in (None, "", [], {}):
            filled[member] = value
    return filled


def convert(shape: Any, value: Any) -> Any:
    """One value as a shape wants it."""
    if value is None:
        return None
    if isinstance(value, Exactly):
        return value.value
    kind = shape.type_name
    if kind == "structure":
        block = value[0] if isinstance(value, list) and value else value
        return structure(shape, block) if isinstance(block, Mapping) and block else None
    if kind == "list":
        if isinstance(value, Mapping) and _tag_names(shape):
            return tags(shape, value)
        values = value if isinstance(value, list) else [value]
        converted = [convert(shape.member, each) for each in values]
        return [each for each in converted if each not in (None, "")]
    if kind == "map":
        return {str(name): convert(shape.value, each) for name, each in value.items()} if value else None
    if value == "":
        return None
    return _simple(kind, value)


def tags(shape: Any, pairs: Mapping[str, str] | None) -> Any:
    """Tags in the form that a member has: a map, or a list of key and value under the names the service uses."""
    if not pairs:
        return None
    if shape.type_name == "map":
        return dict(pairs)
    names = _tag_names(shape)
    assert names is not None, f"{shape.name} is not a list of tags"
    key, value = names
    return [{key: name, value: text} for name, text in sorted(pairs.items())]


def _tag_names(shape: Any) -> tuple[str, str] | None:
    if shape.member.type_name != "structure":
        return None
    members = {name.lower().removeprefix("tag"): name for name in shape.member.members}
    return (members["key"], members["value"]) if members.keys() >= {"key", "value"} else None


def _simple(kind: str, value: Any) -> Any:
    if kind in ("integer", "long"):
        return int(value)
    if kind in ("float", "double"):
        return float(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else str(value).lower() == "true"
    if kind == "blob":
        return value if isinstance(value, bytes) else str(value).encode()
    if kind == "string":
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def _named(names: Mapping[str, Any], member: str, shape: Any) -> Any:
    """The attribute for a member; singular and plural are one where the member is a list."""
    bare = _bare(member)
    if bare in names:
        return names[bare]
    if shape.type_name == "list":
        for other in (bare + "s", bare.removesuffix("s")):
            if other in names:
                return names[other]
    return None


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()

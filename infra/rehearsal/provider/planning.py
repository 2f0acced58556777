"""What a change will come to, as far as it can be known before it is made.

Knows schemas and values, neither the local AWS nor the protocol's messages. New: a computed attribute that the
configuration leaves open is unknown. Changed: it keeps its value, except those that any update changes. The tags of the
provider's configuration are merged into `tags_all`. Invariant: an attribute that the configuration sets is planned as
it is set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from infra.rehearsal.provider.schema import Block
from infra.rehearsal.provider.templates import look_up
from infra.rehearsal.provider.wire import UNKNOWN, conform, is_unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """What the provider's configuration adds to every resource."""

    region: str
    tags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The planned state and the attributes for which the resource must be made anew."""

    state: dict[str, Any]
    replace: tuple[str, ...] = ()


def plan_new(block: Block, proposed: Mapping[str, Any], defaults: Defaults) -> Plan:
    """The plan of a resource that is not there yet."""
    state = _open_unknown(block, proposed)
    if _is_open(block, "region", proposed):
        state["region"] = defaults.region
    return Plan(state=_tagged(block, state, defaults))


def plan_change(
    block: Block,
    prior: Mapping[str, Any],
    proposed: Mapping[str, Any],
    defaults: Defaults,
    *,
    volatile: Collection[str],
    immutable: Collection[str],
) -> Plan:
    """The plan of a resource that is there; `immutable` holds names, or dotted paths into blocks."""
    state = _tagged(block, dict(proposed), defaults)
    if state == prior:
        return Plan(state=dict(prior))
    for name in volatile:
        state[name] = UNKNOWN
    changed = [path for path in immutable if look_up_all(path, prior) != look_up_all(path, state)]
    return Plan(state=state, replace=tuple(sorted({path.split(".")[0] for path in changed})))


def settle(block: Block, planned: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The state after a change: every unknown value is an output, or null."""
    state = {}
    for name, attribute in block.attributes.items():
        value = planned.get(name)
        state[name] = conform(attribute.type, outputs.get(name)) if _holds_unknown(value) else value
    for name, nested in block.blocks.items():
        value, inner = planned.get(name), outputs.get(name)
        if nested.nesting == "single":
            state[name] = None if value is None else settle(nested.block, value, inner or {})
        else:
            items = inner if isinstance(inner, list) else []
            padded = [*items, *([{}] * len(value or []))]
            state[name] = [settle(nested.block, each, padded[index] or {}) for index, each in enumerate(value or [])]
    return state


def look_up_all(path: str, values: Mapping[str, Any]) -> Any:
    """The values at a dotted path, through every item of the blocks on the way."""
    head, _, rest = path.partition(".")
    value = values.get(head)
    if not rest:
        return value
    if isinstance(value, list):
        return [look_up_all(rest, each) for each in value if isinstance(each, Mapping)]
    return look_up(rest, value) if isinstance(value, Mapping) else None


def _open_unknown(block: Block, proposed: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, attribute in block.attributes.items():
        value = proposed.get(name)
        state[name] = UNKNOWN if attribute.computed and value is None else value
    for name, nested in block.blocks.items():
        value = proposed.get(name)
        if isinstance(value, list):
            state[name] = [_open_unknown(nested.block, each) for each in value]
        else:
            state[name] = _open_unknown(nested.block, value) if isinstance(value, Mapping) else value
    return state


def _tagged(block: Block, state: dict[str, Any], defaults: Defaults) -> dict[str, Any]:
    attribute = block.attributes.get("tags_all")
    if attribute is None or not attribute.computed or "tags" not in block.attributes:
        return state
    own = state.get("tags")
    state["tags_all"] = UNKNOWN if is_unknown(own) else {**defaults.tags, **(own or {})}
    return state


def _is_open(block: Block, name: str, proposed: Mapping[str, Any]) -> bool:
    attribute = block.attributes.get(name)
    return attribute is not None and attribute.computed and attribute.optional and proposed.get(name) is None


def _holds_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_unknown(each) for each in value.values())
    if isinstance(value, list):
        return any(_holds_unknown(each) for each in value)
    return is_unknown(value)

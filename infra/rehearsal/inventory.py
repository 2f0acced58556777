"""What a simulated AWS holds: the objects that its backends lead to.

Runs inside the process of the local AWS. Knows only that backends keep resources in attributes, mappings and lists, and
that resources keep others the same way (an event bus its rules); `moto` also has a list of everything it ever made,
deleted things among it, so that list says nothing. Invariant: an item's key stays the same as long as the resource
exists, since what lies near the backend is visited before what lies inside of something else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

# Attributes that name a resource for a reader, best first.
_NAMES = ("arn", "name", "id", "resource_id", "key_id", "queue_name", "alarm_name", "function_name", "identifier")
# What services keep of a deleted resource for a while, as AWS does: (attribute, value that says so).
_GOING = (
    ("key_state", "PendingDeletion"),
    ("status", "DELETED"),
    ("status", "deleted"),
    ("state", "deleted"),
    ("state", "deleting"),
    ("_state", "terminated"),
)
# Levels of mappings and lists in a table; levels of resources inside of resources.
_NESTED = 4
_INSIDE = 1
_SIMULATOR = "moto"
# Objects in tables that are no resources: tags go with what they are on, backends hold each other.
_HELPERS = ("TaggingService", "Backend")


def items(backends: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """Everything that the backends hold: service to region to backend."""
    for service, regions in sorted(backends.items()):
        for region, backend in sorted(regions.items()):
            for path, resource in _resources(backend):
                yield {
                    "service": service,
                    "region": region,
                    "type": type(resource).__name__,
                    "key": path,
                    "name": _name(resource, path),
                }


def _resources(backend: Any) -> Iterator[tuple[str, Any]]:
    """Resources in the tables of a backend, and those inside of these, each once."""
    seen = {id(backend)}
    waiting: deque[tuple[str, Any, int]] = deque([("", backend, 0)])
    while waiting:
        path, holder, depth = waiting.popleft()
        for table, value in sorted(vars(holder).items()):
            for below, resource in _entries(value, f"{path}{table}", _NESTED):
                if id(resource) in seen:
                    continue
                seen.add(id(resource))
                if _going(resource):
                    continue
                yield below, resource
                if depth < _INSIDE and hasattr(resource, "__dict__"):
                    waiting.append((f"{below}/", resource, depth + 1))


def _entries(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Resources in a table, however mappings and lists nest. What is no table is a helper, or leads elsewhere."""
    if not depth:
        return
    if isinstance(value, Mapping):
        children = [(str(key), child) for key, child in list(value.items())]
    elif isinstance(value, (list, tuple, set, frozenset)):
        children = [(_name(child, str(id(child))), child) for child in list(value)]
    else:
        return
    for key, child in children:
        if _is_resource(child):
            yield f"{path}/{key}", child
        else:
            yield from _entries(child, f"{path}/{key}", depth - 1)


def _is_resource(value: Any) -> bool:
    """An object of one of the simulator's classes that is none of its helpers."""
    kind = type(value)
    return kind.__module__.split(".")[0] == _SIMULATOR and not kind.__name__.endswith(_HELPERS)


def _name(resource: Any, default: str) -> str:
    for attribute in _NAMES:
        value = getattr(resource, attribute, None)
        if isinstance(value, str) and value:
            return value
    return default


def _going(resource: Any) -> bool:
    if getattr(resource, "deleted_date", None) is not None:
        return True
    return any(getattr(resource, attribute, None) == value for attribute, value in _GOING)

"""What a simulated AWS holds: the objects that its backends' tables lead to.

Runs inside the process of the local AWS. Knows only that backends keep their resources in attributes, mappings and
lists; `moto` keeps a list of everything it ever made, deleted things among it, so that list says nothing. Invariant:
an item's key stays the same as long as the resource exists.
"""

from __future__ import annotations

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
_DEPTH = 4


def items(backends: Mapping[str, Mapping[str, Any]], model: type) -> Iterator[dict[str, str]]:
    """Everything that the backends hold: service to region to backend; `model` is the base of every resource."""
    for service, regions in sorted(backends.items()):
        for region, backend in sorted(regions.items()):
            for table, value in sorted(vars(backend).items()):
                for path, resource in _resources(value, model, table, _DEPTH):
                    if not _going(resource):
                        yield {
                            "service": service,
                            "region": region,
                            "type": type(resource).__name__,
                            "key": path,
                            "name": _name(resource, path),
                        }


def _resources(value: Any, model: type, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Resources in a table, however it nests; not those inside of other resources, which go with them."""
    if isinstance(value, model):
        yield path, value
    elif depth and isinstance(value, Mapping):
        for key, child in list(value.items()):
            yield from _resources(child, model, f"{path}/{key}", depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for child in list(value):
            name = _name(child, str(id(child))) if isinstance(child, model) else str(id(child))
            yield from _resources(child, model, f"{path}/{name}", depth - 1)


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

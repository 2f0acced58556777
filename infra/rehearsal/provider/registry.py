"""Which adapter serves a resource type, and which function a data source, found in the modules of `adapters`.

Knows no type itself. Invariant: a type stands in one module only; a resource type in none is recorded in the state with
that reason, a data source in none is an error, since nothing can be said about it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from infra.rehearsal.provider import adapters
from infra.rehearsal.provider.adapter import Adapter, Made, Recorded
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.running import MadeAdapter, RecordedAdapter

DataReader = Callable[[Cloud, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """Every type that has an entry."""

    resources: Mapping[str, Adapter | Made | Recorded]
    data: Mapping[str, DataReader]

    def adapter(self, type_: str) -> Adapter:
        """The adapter of a resource type."""
        entry = self.resources.get(type_) or Recorded(reason="the stand-in provider has no adapter for it")
        if isinstance(entry, Made):
            return MadeAdapter(entry)
        return recorded(type_, entry) if isinstance(entry, Recorded) else entry

    def reason(self, type_: str) -> str | None:
        """Why a resource type is only recorded; None if the local AWS makes it."""
        adapter = self.adapter(type_)
        return adapter.recorded.reason if isinstance(adapter, RecordedAdapter) else None


def recorded(type_: str, entry: Recorded) -> RecordedAdapter:
    """The adapter of what is only recorded; where the entry says nothing, an ARN is made up in the usual form."""
    service, _, kind = type_.removeprefix("aws_").partition("_")
    arn = f"arn:{{partition}}:{service}:{{region}}:{{account_id}}:{kind.replace('_', '-') or service}/{{id}}"
    outputs = {"arn": arn, **entry.outputs}
    return RecordedAdapter(Recorded(reason=entry.reason, id=entry.id, outputs=outputs))


def collect() -> Registry:
    """Import every module of `adapters` and join what they offer."""
    resources: dict[str, Adapter | Made | Recorded] = {}
    data: dict[str, DataReader] = {}
    for info in pkgutil.iter_modules(adapters.__path__):
        module = importlib.import_module(f"{adapters.__name__}.{info.name}")
        for found, into in ((getattr(module, "RESOURCES", {}), resources), (getattr(module, "DATA", {}), data)):
            twice = sorted(found.keys() & into.keys())
            assert not twice, f"{info.name}: {', '.join(twice)} has an adapter elsewhere already"
            into.update(found)
    return Registry(resources=resources, data=data)

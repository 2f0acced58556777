"""An account of a local AWS in which the stand-in provider makes resources one by one."""

from __future__ import annotations

from typing import Any

from infra.rehearsal.provider.bindings import installed
from infra.rehearsal.provider.changes import Changes
from infra.rehearsal.provider.cloud import cloud_at
from infra.rehearsal.provider.planning import Defaults, plan_change, plan_new
from infra.rehearsal.provider.registry import collect
from infra.rehearsal.provider.replacing import immutable
from infra.rehearsal.provider.report import Report
from standin_doubles import client

DEFAULTS = Defaults(region="us-east-1", tags={"project": "eagle3"})


class Account:
    """Resources made one by one, as Terraform would, each with the real schema of its type."""

    def __init__(self, endpoint: str, cache: Any) -> None:
        self.endpoint = endpoint
        registry = collect()
        self._changes = Changes(cloud=cloud_at(endpoint, "us-east-1"), registry=registry, report=Report(None))
        self._schemas = installed("cdktf", cache).schemas(registry.resources)

    def aws(self, service: str) -> Any:
        return client(service, self.endpoint)

    def body(self, type_: str, values: dict) -> dict:
        block = self._schemas[type_]
        empty = {name: None if each.nesting == "single" else [] for name, each in block.blocks.items()}
        assert not values.keys() - block.attributes.keys() - empty.keys(), f"{type_} has no such attribute"
        return {**dict.fromkeys(block.attributes), **empty, **values}

    def make(self, type_: str, **values: Any) -> dict:
        block = self._schemas[type_]
        outcome = self._changes.create(type_, block, plan_new(block, self.body(type_, values), DEFAULTS).state)
        assert outcome.error is None, outcome.error
        return outcome.state

    def change(self, type_: str, prior: dict, **values: Any) -> dict:
        block = self._schemas[type_]
        volatile, fixed = collect().adapter(type_).volatile, immutable(type_, block)
        plan = plan_change(block, prior, {**prior, **values}, DEFAULTS, volatile=volatile, immutable=fixed)
        assert plan.replace == ()
        outcome = self._changes.update(type_, block, prior, plan.state, b"made")
        assert outcome.error is None, outcome.error
        return outcome.state

    def there(self, type_: str, state: dict) -> bool:
        return self._changes.find(type_, state, b"made") is not None

    def remove(self, type_: str, state: dict) -> None:
        outcome = self._changes.delete(type_, state, b"made")
        assert outcome.error is None, outcome.error
        assert not self.there(type_, state)

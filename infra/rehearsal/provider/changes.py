"""Makes, finds, changes and removes resources through their adapters, and writes the report.

Knows plain states, no protocol messages. Whether a resource is only recorded is decided when it is made, and kept with
it (`RECORDED`). Invariant: what was made before a later step failed is returned with the error, so that Terraform
marks it as tainted and destroys it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from infra.rehearsal.provider import names
from infra.rehearsal.provider.adapter import PartlyMadeError, Recorded
from infra.rehearsal.provider.cloud import AWS_ERRORS, Cloud, is_unimplemented
from infra.rehearsal.provider.planning import settle
from infra.rehearsal.provider.registry import Registry, recorded
from infra.rehearsal.provider.report import Entry, Report
from infra.rehearsal.provider.running import MadeAdapter, UnfinishedError
from infra.rehearsal.provider.schema import Block
from infra.rehearsal.provider.wire import plain

RECORDED = b"recorded"
MADE = b"made"
Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a change."""

    state: Values | None
    mark: bytes
    """`MADE` or `RECORDED`; Terraform keeps it with the resource."""
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """The changes of one run of the provider."""

    cloud: Cloud
    registry: Registry
    report: Report

    def create(self, type_: str, block: Block, planned: Mapping[str, Any]) -> Outcome:
        """Make a resource."""
        named, cloud = names.settled(block, planned, self.cloud.token), self._cloud(planned)
        adapter, reason = self.registry.adapter(type_), self.registry.reason(type_)
        outputs: Mapping[str, Any]
        failure: Exception | None = None
        try:
            outputs = adapter.create(cloud, plain(named))
        except PartlyMadeError as error:
            outputs, failure = error.outputs, error.cause
        except (*AWS_ERRORS, UnfinishedError) as error:
            if not is_unimplemented(error):
                return Outcome(state=None, mark=MADE, error=error)
            reason = f"the local AWS answered: {error}"
            outputs = recorded(type_, Recorded(reason=reason)).create(cloud, plain(named))
        state = settle(block, named, outputs)
        self._note(type_, state, "create", reason)
        return Outcome(state=state, mark=RECORDED if reason is not None else MADE, error=failure)

    def find(self, type_: str, state: Values, mark: bytes) -> Values | None:
        """The state of a resource that is still there, or None."""
        if mark == RECORDED or self.registry.adapter(type_).exists(self._cloud(state), plain(state)):
            return state
        self._note(type_, state, "gone", None)
        return None

    def update(self, type_: str, block: Block, prior: Values, planned: Values, mark: bytes) -> Outcome:
        """Change a resource in place."""
        outputs: Mapping[str, Any] = {}
        adapter, reason = self.registry.adapter(type_), self._why(type_, mark)
        if mark != RECORDED:
            try:
                outputs = adapter.update(self._cloud(prior), plain(prior), plain(planned))
            except (*AWS_ERRORS, UnfinishedError) as error:
                return Outcome(state=prior, mark=mark, error=error)
            if isinstance(adapter, MadeAdapter):
                changed = frozenset(name for name in planned if planned[name] != prior.get(name))
                left = adapter.uncovered(changed)
                reason = f"its adapter does not change {', '.join(sorted(left))}" if left else None
        state = settle(block, planned, {**plain(prior), **outputs})
        self._note(type_, state, "update", reason)
        return Outcome(state=state, mark=mark)

    def delete(self, type_: str, state: Values, mark: bytes) -> Outcome:
        """Remove a resource."""
        if mark != RECORDED:
            try:
                self.registry.adapter(type_).delete(self._cloud(state), plain(state))
            except AWS_ERRORS as error:
                return Outcome(state=state, mark=mark, error=error)
        self._note(type_, state, "delete", self._why(type_, mark))
        return Outcome(state=None, mark=mark)

    def _cloud(self, values: Mapping[str, Any]) -> Cloud:
        return self.cloud.elsewhere(values.get("region"))

    def _why(self, type_: str, mark: bytes) -> str | None:
        if mark != RECORDED:
            return None
        return self.registry.reason(type_) or "the local AWS could not make it"

    def _note(
        self, type_: str, state: Values, action: Literal["create", "update", "delete", "gone"], reason: str | None
    ) -> None:
        where: Literal["aws", "state"] = "aws" if reason is None else "state"
        entry = Entry(type=type_, id=str(state.get("id")), action=action, where=where, reason=reason or "")
        self.report.add(entry)

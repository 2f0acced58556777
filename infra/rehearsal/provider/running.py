"""Runs the declarative entries of `adapter`: what is made in the local AWS, and what is only recorded.

Knows how calls, templates and answers go together, no resource type. Invariant: a resource whose `create` succeeded is
never lost: if a later step fails, the error carries its id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from infra.rehearsal.provider import shapes
from infra.rehearsal.provider.adapter import Call, Made, PartlyMadeError, Recorded, Source, Step
from infra.rehearsal.provider.cloud import AWS_ERRORS, Cloud, is_missing
from infra.rehearsal.provider.templates import State, extract, fill_templates

_NOTHING: tuple[object, ...] = (None, "", [], {})


class UnfinishedError(Exception):
    """The local AWS took the request, but what it made is not there."""


@dataclass(frozen=True, slots=True)
class MadeAdapter:
    """Runs a `Made`."""

    made: Made

    @property
    def volatile(self) -> frozenset[str]:
        return self.made.volatile

    def create(self, cloud: Cloud, planned: State) -> Mapping[str, Any]:
        answer = self._do(cloud, self.made.create, planned)
        identity = self._value(cloud, self.made.id, answer, planned)
        if identity is None:
            raise UnfinishedError(f"{self.made.service} {self.made.create.operation} answered without an id: {answer}")
        state = {**planned, "id": identity}
        given = frozenset(name for name, value in planned.items() if value not in _NOTHING)
        try:
            self._steps(cloud, self.made.more, given, {}, state)
            return {**self._outputs(cloud, state, answer), "id": identity}
        except (*AWS_ERRORS, UnfinishedError) as error:
            raise PartlyMadeError({"id": identity}, error) from error

    def exists(self, cloud: Cloud, state: State) -> bool:
        return self._look(cloud, state) is not None

    def update(self, cloud: Cloud, prior: State, planned: State) -> Mapping[str, Any]:
        changed = frozenset(name for name in planned if planned[name] != prior.get(name))
        kept = {name: prior.get(name) for name in self.made.volatile}
        state = {**planned, **kept, "id": prior["id"]}
        self._steps(cloud, self.made.update, changed, prior, state)
        return self._outputs(cloud, state, {})

    def uncovered(self, changed: frozenset[str]) -> frozenset[str]:
        """Of the changed attributes, those that no step of an update brings to the local AWS."""
        if any(not isinstance(step, Call) or not step.when for step in self.made.update):
            return frozenset()
        reached = {name for step in self.made.update if isinstance(step, Call) for name in step.when}
        return changed - reached - {"tags", "tags_all", "timeouts", *self.made.volatile}

    def delete(self, cloud: Cloud, state: State) -> None:
        if self.made.before_delete is not None:
            self.made.before_delete(cloud, state)
        if self.made.delete is not None:
            parameters = self._parameters(cloud, self.made.delete, state)
            cloud.retried(self.made.service, self.made.delete.operation, parameters)

    def _steps(
        self, cloud: Cloud, steps: tuple[Step, ...] | Any, due: frozenset[str], prior: State, state: State
    ) -> None:
        for step in steps:
            if not isinstance(step, Call):
                step(cloud, prior, state)
            elif step.concerns(due):
                self._do(cloud, step, state)

    def _outputs(self, cloud: Cloud, state: State, created: Mapping[str, Any]) -> dict[str, Any]:
        found = self._look(cloud, state) if self.made.read is not None else created
        if found is None:
            raise UnfinishedError(f"{self.made.service} {self.made.create.operation}: what was made is not found")
        same = {shapes.snake(name): value for name, value in found.items()} if isinstance(found, Mapping) else {}
        same.pop("id", None)
        named = {name: self._value(cloud, source, found, state) for name, source in self.made.outputs.items()}
        return {**same, **named}

    def _look(self, cloud: Cloud, state: State) -> Any:
        """What `read` finds; None when the resource is gone."""
        if self.made.read is None:
            return {}
        try:
            answer = self._do(cloud, self.made.read, state)
        except ClientError as error:
            if is_missing(error):
                return None
            raise
        if callable(self.made.found):
            found = self.made.found(answer, state)
        else:
            found = extract(self.made.found, answer) if self.made.found else answer
        return None if found in _NOTHING else found

    def _do(self, cloud: Cloud, step: Call, state: State) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        scopes = [{**state, **item} for item in state.get(step.each) or []] if step.each else [state]
        for scope in scopes:
            answer = cloud.call(self.made.service, step.operation, self._parameters(cloud, step, scope))
        return answer

    def _parameters(self, cloud: Cloud, step: Call, state: State) -> dict[str, Any]:
        scope = _scope(cloud, state)
        given = {name: fill_templates(template, scope) for name, template in step.params.items()}
        return cloud.parameters(self.made.service, step.operation, given, state if step.auto else {}, step.omit)

    def _value(self, cloud: Cloud, source: Source, answer: Any, state: State) -> Any:
        if callable(source):
            return source(cloud, state)
        return fill_templates(source, _scope(cloud, state)) if "{" in source else extract(source, answer)


def _scope(cloud: Cloud, state: State) -> dict[str, Any]:
    """What templates may name: the state, and the facts where the state says nothing."""
    facts = {name: value for name, value in cloud.facts.items() if state.get(name) is None}
    return {**state, **facts}


@dataclass(frozen=True, slots=True)
class RecordedAdapter:
    """Runs a `Recorded`."""

    recorded: Recorded

    @property
    def volatile(self) -> frozenset[str]:
        return frozenset()

    def create(self, cloud: Cloud, planned: State) -> Mapping[str, Any]:
        known = {name: value for name, value in planned.items() if value is not None}
        scope = {**cloud.facts, "token": cloud.token(), **known}
        scope["id"] = fill_templates(self.recorded.id, scope) or scope["token"]
        return {"id": scope["id"], **{k: fill_templates(v, scope) for k, v in self.recorded.outputs.items()}}

    def exists(self, cloud: Cloud, state: State) -> bool:
        return True

    def update(self, cloud: Cloud, prior: State, planned: State) -> Mapping[str, Any]:
        return {}

    def delete(self, cloud: Cloud, state: State) -> None:
        return None

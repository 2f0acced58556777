"""How one resource type is made, found, changed and removed in the local AWS: the interface and its declarative form.

Knows boto3 operations by name and attributes by name, no Terraform protocol. An adapter returns outputs: values of
attributes that the configuration left open (`id` always among them). Invariant: an error of the local AWS is raised,
never turned into success; only "this operation is not implemented there" makes a resource recorded instead of made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State


class PartlyMadeError(Exception):
    """A step after the one that made the resource failed: it is there, and must be known to be removed."""

    def __init__(self, outputs: Mapping[str, Any], cause: Exception) -> None:
        super().__init__(str(cause))
        self.outputs = outputs
        self.cause = cause


class Adapter(Protocol):
    """What the provider asks of a resource type. States are plain values: unknown ones are None, blocks are lists."""

    @property
    def volatile(self) -> frozenset[str]:
        """Computed attributes that any update may change, such as `latest_version`: unknown in an update's plan."""

    def create(self, cloud: Cloud, planned: State) -> Mapping[str, Any]:
        """Make it; returns outputs, `id` among them."""

    def exists(self, cloud: Cloud, state: State) -> bool:
        """Whether the local AWS still has it."""

    def update(self, cloud: Cloud, prior: State, planned: State) -> Mapping[str, Any]:
        """Change it in place; returns outputs that changed."""

    def delete(self, cloud: Cloud, state: State) -> None:
        """Remove it; it is no error if it is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One operation of the service; make it with `call` or `fill`."""

    operation: str
    """As boto3 names it: "create_key"."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Request member to template: "{id}", "{vpc_config.0.subnet_ids}", a constant, nested dicts and lists of these, or
    a function of the state. A member whose template comes to None is left out."""
    auto: bool = False
    """Fill every other member of the request from the attribute of the same name (`KmsKeyId` from `kms_key_id`)."""
    omit: frozenset[str] = frozenset()
    """Members that `auto` leaves out."""
    when: frozenset[str] = frozenset()
    """In `update`: only if one of these attributes changed. In `create`: only if one of these is set. Empty: always."""

    each: str = ""
    """A list attribute or block: the call is done for every item, whose own attributes hide the resource's."""

    def concerns(self, changed: frozenset[str]) -> bool:
        """Whether the call is due, given the attributes that are set or changed."""
        return not self.when or bool(self.when & changed)


Step = Call | Callable[[Cloud, State, State], None]
"""A call, or a function of the prior (empty when new) and the planned state."""


def call(operation: str, /, *, when: Sequence[str] = (), each: str = "", **params: Any) -> Call:
    """An operation with exactly these members: `call("delete_key", KeyId="{id}")`."""
    return Call(operation=operation, params=params, when=frozenset(when), each=each)


def fill(
    operation: str, /, *, omit: Sequence[str] = (), when: Sequence[str] = (), each: str = "", **params: Any
) -> Call:
    """An operation whose members come from attributes of the same name; `params` overrides or adds."""
    return Call(operation=operation, params=params, auto=True, omit=frozenset(omit), when=frozenset(when), each=each)


Source = str | Callable[[Cloud, State], Any]
"""Where a value comes from: a path, a template (it has braces), or a function."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A resource that the local AWS can make."""

    service: str
    """boto3's name of the service."""
    create: Call
    id: Source
    """Where the id is: a path in the answer of `create` ("KeyMetadata.KeyId"), or a template ("{name}")."""
    more: Sequence[Step] = ()
    """Done after `create`, on the state with its id; a call with `when` only if one of these attributes is set."""
    read: Call | None = None
    """The call that fails, or whose `found` path is empty, when the resource is gone. None: it lives with others."""
    found: str | Callable[[Mapping[str, Any], State], Any] = ""
    """Path into the answer of `read`, or a function of the answer and the state: the resource itself."""
    outputs: Mapping[str, Source] = field(default_factory=dict)
    """Attribute to a path from `found`, or to a template: "arn:{partition}:iam::{account_id}:role/{name}". A computed
    attribute that is not named takes the member of the same name (`owner_id` from `OwnerId`)."""
    update: Sequence[Step] = ()
    """Of the calls those are done that concern what changed; functions always."""
    delete: Call | None = None
    """None: nothing to do, the resource goes with another."""
    volatile: frozenset[str] = frozenset()
    """See `Adapter`."""
    before_delete: Callable[[Cloud, State], None] | None = None
    """Empties the resource (a bucket with force_destroy, a role's policies)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A resource that the local AWS cannot make: it is kept in the Terraform state only, and reported."""

    reason: str
    """Shown in the summary, such as "the local AWS has no VPC origins"."""
    id: str = "{name}"
    """Template; "{token}" is 17 random hexadecimal digits, as in "vo-{token}"."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """Attribute to template, "{id}" among its fields, or to a constant."""

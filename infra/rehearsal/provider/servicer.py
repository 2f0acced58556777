"""Terraform's calls, answered: protocol messages in and out, and nothing else.

Knows the order of the protocol (schema, validate, configure, then read, plan and apply) and hands values to `planning`
and `changes`. Invariant: a fault of the configuration or of the local AWS is a diagnostic, to which Terraform adds the
resource's address; only a fault of this program ends the call.
"""

# ruff: noqa: N802 - the methods have the protocol's names

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tf.gen import tfplugin_pb2 as pb
from tf.gen import tfplugin_pb2_grpc as rpc

from eagle3.errors import ConfigError
from infra.rehearsal.provider.changes import MADE, Changes, Outcome
from infra.rehearsal.provider.checks import problems
from infra.rehearsal.provider.planning import Defaults, Plan, plan_change, plan_new, settle
from infra.rehearsal.provider.replacing import immutable
from infra.rehearsal.provider.schema import Block
from infra.rehearsal.provider.wire import decode, diagnostic, encode, plain, schema_message

Connect = Callable[[Mapping[str, Any]], tuple[Changes, Defaults]]


class Servicer(rpc.ProviderServicer):  # type: ignore[misc]
    """The provider, for the types that it was given schemas of."""

    def __init__(self, provider: Block, schemas: Mapping[str, Block], connect: Connect) -> None:
        self._provider = provider
        self._resources = {name: block for name, block in schemas.items() if not name.startswith("data.")}
        self._data = {name.removeprefix("data."): block for name, block in schemas.items() if name.startswith("data.")}
        self._connect = connect
        self._changes: Changes | None = None
        self._defaults = Defaults(region="", tags={})

    def GetMetadata(self, request: Any, context: Any) -> Any:
        return pb.GetMetadata.Response(
            server_capabilities=_capabilities(),
            resources=[pb.GetMetadata.ResourceMetadata(type_name=name) for name in self._resources],
            data_sources=[pb.GetMetadata.DataSourceMetadata(type_name=name) for name in self._data],
        )

    def GetProviderSchema(self, request: Any, context: Any) -> Any:
        return pb.GetProviderSchema.Response(
            provider=schema_message(self._provider),
            provider_meta=schema_message(Block()),
            resource_schemas={name: schema_message(block) for name, block in self._resources.items()},
            data_source_schemas={name: schema_message(block) for name, block in self._data.items()},
            server_capabilities=_capabilities(),
        )

    def GetFunctions(self, request: Any, context: Any) -> Any:
        return pb.GetFunctions.Response()

    def ValidateProviderConfig(self, request: Any, context: Any) -> Any:
        return pb.ValidateProviderConfig.Response()

    def ValidateResourceConfig(self, request: Any, context: Any) -> Any:
        found = problems(request.type_name, self._resources[request.type_name], decode(request.config))
        return pb.ValidateResourceConfig.Response(diagnostics=[diagnostic(*each) for each in found])

    def ValidateDataResourceConfig(self, request: Any, context: Any) -> Any:
        return pb.ValidateDataResourceConfig.Response()

    def UpgradeResourceState(self, request: Any, context: Any) -> Any:
        block, values = self._resources[request.type_name], json.loads(request.raw_state.json)
        empty: dict[str, Any] = dict.fromkeys(block.attributes)
        empty |= {name: None if each.nesting == "single" else [] for name, each in block.blocks.items()}
        state = {name: values.get(name, default) for name, default in empty.items()}
        return pb.UpgradeResourceState.Response(upgraded_state=encode(state))

    def ConfigureProvider(self, request: Any, context: Any) -> Any:
        try:
            self._changes, self._defaults = self._connect(plain(decode(request.config)))
        except ConfigError as error:
            return pb.ConfigureProvider.Response(diagnostics=[diagnostic("No local AWS to work on", str(error))])
        return pb.ConfigureProvider.Response()

    def ReadResource(self, request: Any, context: Any) -> Any:
        state = decode(request.current_state)
        try:
            found = self._made.find(request.type_name, state, request.private or MADE)
        except Exception as error:  # whatever an adapter raises is shown with the resource
            return pb.ReadResource.Response(
                new_state=encode(state), private=request.private, diagnostics=[_failed("read", request, error)]
            )
        return pb.ReadResource.Response(new_state=encode(found), private=request.private)

    def PlanResourceChange(self, request: Any, context: Any) -> Any:
        block = self._resources[request.type_name]
        prior, proposed = decode(request.prior_state), decode(request.proposed_new_state)
        if proposed is None:
            plan = Plan(state={})
        elif prior is None:
            plan = plan_new(block, proposed, self._defaults)
        else:
            volatile = self._made.registry.adapter(request.type_name).volatile
            fixed = immutable(request.type_name, block)
            plan = plan_change(block, prior, proposed, self._defaults, volatile=volatile, immutable=fixed)
        paths = [pb.AttributePath(steps=[pb.AttributePath.Step(attribute_name=name)]) for name in plan.replace]
        return pb.PlanResourceChange.Response(
            planned_state=encode(plan.state if proposed is not None else None),
            planned_private=request.prior_private,
            requires_replace=paths,
        )

    def ApplyResourceChange(self, request: Any, context: Any) -> Any:
        block, type_ = self._resources[request.type_name], request.type_name
        prior, planned = decode(request.prior_state), decode(request.planned_state)
        mark = request.planned_private or MADE
        verb = "create" if prior is None else "delete" if planned is None else "update"
        try:
            if prior is None:
                outcome = self._made.create(type_, block, planned)
            elif planned is None:
                outcome = self._made.delete(type_, prior, mark)
            else:
                outcome = self._made.update(type_, block, prior, planned, mark)
        except Exception as error:  # whatever an adapter raises is shown with the resource
            outcome = Outcome(state=prior, mark=mark, error=error)
        diagnostics = [] if outcome.error is None else [_failed(verb, request, outcome.error)]
        return pb.ApplyResourceChange.Response(
            new_state=encode(outcome.state), private=outcome.mark, diagnostics=diagnostics
        )

    def ReadDataSource(self, request: Any, context: Any) -> Any:
        block, config = self._data[request.type_name], decode(request.config)
        reader = self._made.registry.data.get(request.type_name)
        if reader is None:
            text = "Add it to a module of infra/rehearsal/provider/adapters."
            summary = f"The stand-in provider cannot read {request.type_name}"
            return pb.ReadDataSource.Response(state=encode(None), diagnostics=[diagnostic(summary, text)])
        planned = plan_new(block, config, self._defaults).state
        try:
            outputs = reader(self._made.cloud.elsewhere(planned.get("region")), plain(planned))
        except Exception as error:  # whatever a reader raises is shown with the data source
            return pb.ReadDataSource.Response(state=encode(None), diagnostics=[_failed("read", request, error)])
        return pb.ReadDataSource.Response(state=encode(settle(block, planned, outputs)))

    def ImportResourceState(self, request: Any, context: Any) -> Any:
        text = "A rehearsal starts from nothing; import into the real provider's state instead."
        summary = f"The stand-in provider imports nothing; got {request.type_name} {request.id}"
        return pb.ImportResourceState.Response(diagnostics=[diagnostic(summary, text)])

    def StopProvider(self, request: Any, context: Any) -> Any:
        return pb.StopProvider.Response()

    @property
    def _made(self) -> Changes:
        assert self._changes is not None, "Terraform configures a provider before it reads, plans or applies"
        return self._changes


def _capabilities() -> Any:
    return pb.ServerCapabilities(plan_destroy=False, get_provider_schema_optional=True)


def _failed(verb: str, request: Any, error: Exception) -> Any:
    return diagnostic(f"Could not {verb} {request.type_name}", f"{type(error).__name__}: {error}")

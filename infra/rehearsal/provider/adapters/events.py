"""Rules of EventBridge and their targets."""

from __future__ import annotations

import hashlib
from typing import Any

from infra.rehearsal.provider.adapter import Made, call, fill
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State

_BUS = "{event_bus_name}"
_PUT_RULE = fill("put_rule")


def _target_id(state: State) -> str:
    """The id that is set, or one that belongs to what the target points to."""
    given = state.get("target_id")
    return str(given) if given else f"terraform-{hashlib.sha256(str(state['arn']).encode()).hexdigest()[:26]}"


def _targets(state: State) -> list[dict[str, Any]]:
    target: dict[str, Any] = {
        "Id": _target_id(state),
        "Arn": state["arn"],
        "RoleArn": state.get("role_arn"),
        "Input": state.get("input"),
        "InputPath": state.get("input_path"),
    }
    for block, member in (
        ("dead_letter_config", "DeadLetterConfig"), ("retry_policy", "RetryPolicy"), ("sqs_target", "SqsParameters"),
    ):  # fmt: skip
        for value in state.get(block) or []:
            target[member] = value
    for transformer in state.get("input_transformer") or []:
        target["InputTransformer"] = {
            "InputPathsMap": transformer.get("input_paths"),
            "InputTemplate": transformer.get("input_template"),
        }
    return [target]


def _own(answer: Any, state: State) -> Any:
    return next((target for target in answer["Targets"] if target["Id"] == _target_id(state)), None)


def _full_target_id(cloud: Cloud, state: State) -> str:
    return f"{state['rule']}-{_target_id(state)}"


_PUT_TARGET = call("put_targets", Rule="{rule}", EventBusName=_BUS, Targets=_targets)

RESOURCES = {
    "aws_cloudwatch_event_rule": Made(
        service="events",
        create=_PUT_RULE,
        id="{name}",
        read=call("describe_rule", Name="{name}", EventBusName=_BUS),
        update=[_PUT_RULE],
        delete=call("delete_rule", Name="{name}", EventBusName=_BUS),
    ),
    "aws_cloudwatch_event_target": Made(
        service="events",
        create=_PUT_TARGET,
        id=_full_target_id,
        read=call("list_targets_by_rule", Rule="{rule}", EventBusName=_BUS),
        found=_own,
        outputs={"target_id": "Id"},
        update=[_PUT_TARGET],
        delete=call("remove_targets", Rule="{rule}", EventBusName=_BUS, Ids=lambda state: [_target_id(state)]),
    ),
}

"""Web ACLs and their logs."""

from __future__ import annotations

from typing import Any

from infra.rehearsal.provider.adapter import Made, call
from infra.rehearsal.provider.blocks import request
from infra.rehearsal.provider.shapes import Exactly
from infra.rehearsal.provider.templates import State


def _part(shape: str, block: str) -> Any:
    """The value of a member out of a block that may be empty and still mean something."""
    return lambda state: request("wafv2", shape, state[block]) if state.get(block) else None


_WHAT = {"Name": "{name}", "Scope": "{scope}", "Id": "{id}"}
_CONTENT = {
    "Description": "{description}",
    "DefaultAction": _part("DefaultAction", "default_action"),
    "Rules": _part("Rules", "rule"),
    "VisibilityConfig": _part("VisibilityConfig", "visibility_config"),
    "TokenDomains": "{token_domains}",
}


def _logging(state: State) -> Exactly:
    fields = {
        "resource_arn": state["resource_arn"],
        "log_destination_configs": state["log_destination_configs"],
        "redacted_fields": state.get("redacted_fields"),
        "logging_filter": state.get("logging_filter"),
    }
    return request("wafv2", "LoggingConfiguration", fields)


_PUT_LOGGING = call("put_logging_configuration", LoggingConfiguration=_logging)

RESOURCES = {
    "aws_wafv2_web_acl": Made(
        service="wafv2",
        create=call("create_web_acl", Name="{name}", Scope="{scope}", Tags="{tags_all}", **_CONTENT),
        id="Summary.Id",
        read=call("get_web_acl", **_WHAT),
        outputs={"arn": "WebACL.ARN", "capacity": "WebACL.Capacity", "lock_token": "LockToken"},
        update=[
            call(
                "update_web_acl",
                LockToken="{lock_token}",
                **_WHAT,
                **_CONTENT,
                when=["default_action", "rule", "visibility_config", "description", "token_domains"],
            ),
            call("tag_resource", ResourceARN="{arn}", Tags="{tags_all}", when=["tags_all"]),
        ],
        volatile=frozenset({"lock_token", "capacity"}),
        delete=call("delete_web_acl", LockToken="{lock_token}", **_WHAT),
    ),
    "aws_wafv2_web_acl_logging_configuration": Made(
        service="wafv2",
        create=_PUT_LOGGING,
        id="{resource_arn}",
        read=call("get_logging_configuration", ResourceArn="{resource_arn}"),
        found="LoggingConfiguration",
        update=[_PUT_LOGGING],
        delete=call("delete_logging_configuration", ResourceArn="{resource_arn}"),
    ),
}

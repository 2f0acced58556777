"""Parts of a schema that the bindings leave open ("any value"), read from botocore's model of the service instead.

Knows how the provider names things after the service: a structure is a block that may stand once, a list of structures
a block of the singular name, anything else an attribute. Statements of a firewall hold statements; Terraform's schemas
end, so they are followed to a depth. Invariant: after `closed` nothing of the parts listed here is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import botocore.session

from infra.rehearsal.provider.schema import Attribute, Block, Nested, Type
from infra.rehearsal.provider.shapes import snake

# Type of a resource to path of the open attribute, and the service and shape that describe it.
_PARTS = {
    "aws_wafv2_web_acl": (("rule", "statement"), "wafv2", "Statement"),
    "aws_wafv2_rule_group": (("rule", "statement"), "wafv2", "Statement"),
}
_DEPTH = 2
_SIMPLE: Mapping[str, Type] = {"boolean": "bool", "integer": "number", "long": "number", "double": "number"}
# Where the provider differs: a plural that stays, and what it has a default for.
_PLURAL = frozenset({"managed_rule_group_configs", "address_fields", "phone_number_fields"})
_DEFAULTED = frozenset({"aggregate_key_type"})
_LEFT_OUT = frozenset({"ExcludedRules", "PreParseTextTransformations"})
# AWS takes these at the top only.
_TOP_ONLY = frozenset({"ManagedRuleGroupStatement", "RateBasedStatement", "RuleGroupReferenceStatement"})


def closed(type_: str, block: Block) -> Block:
    """The body with its open part described."""
    part = _PARTS.get(type_)
    if part is None:
        return block
    path, service, name = part
    shape = botocore.session.get_session().get_service_model(service).shape_for(name)
    return _put(block, path, Nested(nesting="list", minimum=1, maximum=1, block=_body(shape, _DEPTH)))


def _put(block: Block, path: tuple[str, ...], nested: Nested) -> Block:
    head, rest = path[0], path[1:]
    if rest:
        inner = block.blocks[head]
        return replace(block, blocks={**block.blocks, head: replace(inner, block=_put(inner.block, rest, nested))})
    attributes = {name: each for name, each in block.attributes.items() if name != head}
    return replace(block, attributes=attributes, blocks={**block.blocks, head: nested})


def _body(shape: Any, depth: int) -> Block:
    attributes: dict[str, Attribute] = {}
    blocks: dict[str, Nested] = {}
    for member, inner in shape.members.items():
        name, required, repeated = snake(member), member in shape.required_members, inner.type_name == "list"
        element = inner.member if repeated else inner
        if member in _LEFT_OUT or (depth < _DEPTH and element.name in _TOP_ONLY):
            continue
        if element.type_name != "structure":
            type_ = _SIMPLE.get(element.type_name, "string")
            needed = required and name not in _DEFAULTED
            whole: Type = ["list", type_] if repeated else type_
            attributes[name] = Attribute(type=whole, required=needed, optional=not needed)
        elif depth > 0 or not _holds(element, shape_name="Statement"):
            body = _body(element, depth - (element.name == "Statement"))
            one = name if not repeated or name in _PLURAL else name.removesuffix("s")
            minimum, maximum = int(required and repeated), 0 if repeated else 1
            blocks[one] = Nested(nesting="list", minimum=minimum, maximum=maximum, block=body)
    return Block(attributes=attributes, blocks=blocks)


def _holds(shape: Any, shape_name: str) -> bool:
    """Whether a structure leads to another statement."""
    members = [each.member if each.type_name == "list" else each for each in shape.members.values()]
    return any(each.name == shape_name for each in members)

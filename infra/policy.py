"""IAM, key and bucket policies as values, written out as JSON.

Knows no framework: principals, resources and conditions are strings, tokens of the framework among them. Invariant:
no statement that allows has the action `*`, and none allows everything on everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement of a policy."""

    sid: str
    """Letters and digits, unique in its policy."""
    actions: Sequence[str]
    """Such as "kms:Decrypt"."""
    resources: Sequence[str] = ("*",)
    """ARNs or patterns. "*" is right in key policies (it means the key) and for actions that know no resource."""
    effect: Literal["Allow", "Deny"] = "Allow"
    services: Sequence[str] = ()
    """Service principals, such as "logs.us-east-1.amazonaws.com"."""
    accounts: Sequence[str] = ()
    """AWS principals: ARNs of accounts and roles, or "*"."""
    conditions: Mapping[str, Mapping[str, str | Sequence[str]]] = field(default_factory=lambda: MappingProxyType({}))
    """Operator to key to value."""

    def __post_init__(self) -> None:
        assert self.sid.isalnum(), f"a sid is letters and digits; got {self.sid!r}"
        assert self.actions, f"{self.sid}: no action"
        assert all(":" in action for action in self.actions), f"{self.sid}: name every action"
        assert self.effect == "Deny" or not any(action.endswith(":*") for action in self.actions) or self.accounts, (
            f"{self.sid}: a whole service is allowed to nobody but the owner of a key"
        )

    def to_json(self) -> dict[str, Any]:
        """The statement as IAM's grammar has it."""
        value: dict[str, Any] = {"Sid": self.sid, "Effect": self.effect}
        if self.services or self.accounts:
            principal: dict[str, Any] = {}
            if self.services:
                principal["Service"] = _one_or_all(self.services)
            if self.accounts:
                principal["AWS"] = _one_or_all(self.accounts)
            value["Principal"] = principal
        value |= {"Action": list(self.actions), "Resource": _one_or_all(self.resources)}
        if self.conditions:
            value["Condition"] = {operator: dict(keys) for operator, keys in self.conditions.items()}
        return value


def policy_document(statements: Sequence[Statement]) -> str:
    """The JSON text of a policy."""
    sids = [statement.sid for statement in statements]
    assert len(set(sids)) == len(sids), f"sids repeat: {sids}"
    return json.dumps({"Version": "2012-10-17", "Statement": [statement.to_json() for statement in statements]})


def trust_policy(
    *services: str,
    conditions: Mapping[str, Mapping[str, str | Sequence[str]]] = MappingProxyType({}),
    tag_session: bool = False,
) -> str:
    """Who may assume a role; Pod Identity needs `tag_session` too (EKS user guide, Pod Identity role)."""
    actions = ["sts:AssumeRole", "sts:TagSession"] if tag_session else ["sts:AssumeRole"]
    value: dict[str, Any] = {
        "Sid": "Trust",
        "Effect": "Allow",
        "Principal": {"Service": _one_or_all(services)},
        "Action": actions,
    }
    if conditions:
        value["Condition"] = {operator: dict(keys) for operator, keys in conditions.items()}
    return json.dumps({"Version": "2012-10-17", "Statement": [value]})


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)

"""What an account says about itself, and documents that need no AWS at all: data sources only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State


def _identity(cloud: Cloud, config: State) -> Mapping[str, Any]:
    answer = cloud.call("sts", "get_caller_identity", {})
    return {"id": answer["Account"], "account_id": answer["Account"], "arn": answer["Arn"], "user_id": answer["UserId"]}


def _region(cloud: Cloud, config: State) -> Mapping[str, Any]:
    name = config.get("region") or config.get("name") or cloud.region
    return {"id": name, "name": name, "region": name, "description": name, "endpoint": f"ec2.{name}.amazonaws.com"}


def _partition(cloud: Cloud, config: State) -> Mapping[str, Any]:
    suffix = cloud.facts["dns_suffix"]
    reverse = ".".join(reversed(suffix.split(".")))
    return {
        "id": cloud.partition,
        "partition": cloud.partition,
        "dns_suffix": suffix,
        "reverse_dns_prefix": reverse,
    }


def _policy_document(cloud: Cloud, config: State) -> Mapping[str, Any]:
    document: dict[str, Any] = {"Version": config.get("version") or "2012-10-17"}
    if config.get("policy_id"):
        document["Id"] = config["policy_id"]
    base: list[Any] = []
    for text in config.get("source_policy_documents") or []:
        base.extend(_statements(text))
    own = [_statement(block) for block in config.get("statement") or []]
    over: list[Any] = []
    for text in config.get("override_policy_documents") or []:
        over.extend(_statements(text))
    replaced = {each["Sid"] for each in over if each.get("Sid")}
    document["Statement"] = [each for each in [*base, *own] if each.get("Sid") not in replaced] + over
    whole, minified = json.dumps(document, indent=2), json.dumps(document, separators=(",", ":"))
    return {"id": str(len(whole)), "json": whole, "minified_json": minified}


def _statements(text: str) -> list[Any]:
    found = json.loads(text).get("Statement", [])
    return found if isinstance(found, list) else [found]


def _statement(block: Mapping[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = {"Sid": block["sid"]} if block.get("sid") else {}
    value["Effect"] = block.get("effect") or "Allow"
    for name, member in (
        ("actions", "Action"),
        ("not_actions", "NotAction"),
        ("resources", "Resource"),
        ("not_resources", "NotResource"),
    ):
        if block.get(name):
            value[member] = _one_or_all(block[name])
    for name, member in (("principals", "Principal"), ("not_principals", "NotPrincipal")):
        if block.get(name):
            value[member] = {each["type"]: _one_or_all(each["identifiers"]) for each in block[name]}
    conditions: dict[str, dict[str, Any]] = {}
    for each in block.get("condition") or []:
        conditions.setdefault(each["test"], {})[each["variable"]] = _one_or_all(each["values"])
    return value | ({"Condition": conditions} if conditions else {})


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else sorted(values)


DATA = {
    "aws_caller_identity": _identity,
    "aws_region": _region,
    "aws_partition": _partition,
    "aws_iam_policy_document": _policy_document,
}

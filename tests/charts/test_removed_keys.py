"""Keys that the chart eagle3 does not have: unknown ones are refused, known mistakes are told the key to use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chart_doubles import CHARTS, fails, load_yaml, render

CHART = CHARTS / "eagle3"
REMOVED: dict[str, str] = load_yaml((CHART / "files" / "removed_keys.yaml").read_text(encoding="utf-8"))[0]
VALUES: dict[str, Any] = load_yaml((CHART / "values.yaml").read_text(encoding="utf-8"))[0]
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", REMOVED)
def test_a_removed_key_names_the_key_to_use(key: str) -> None:
    """Whatever its value, the key is refused with what takes its place."""
    for value in (1, {}, [], "x", False):
        assert f"{key} is no key of this chart; use {REMOVED[key]}" in fails({key: value})


@pytest.mark.parametrize("key", REMOVED)
def test_the_key_to_use_exists(key: str) -> None:
    """What an error sends people to is a key of values.yaml, and the removed key is not."""
    assert key not in VALUES
    place: Any = VALUES
    for part in REMOVED[key].split()[0].split("."):
        assert part in place
        place = place[part]


def closed(schema: dict[str, Any], path: str = "") -> list[str]:
    """Paths of the objects with known keys that would take unknown ones."""
    found = [path] if "properties" in schema and schema.get("additionalProperties") is not False else []
    for key, part in schema.get("properties", {}).items():
        found += closed(part, f"{path}.{key}")
    return found


def unknown(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Paths of the values that the schema does not describe."""
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return []
    found = [f"{path}.{key}" for key in value if key not in properties]
    return found + [
        hit for key in value if key in properties for hit in unknown(value[key], properties[key], f"{path}.{key}")
    ]


def test_unknown_keys_are_refused_at_every_level() -> None:
    """Each object with keys of its own is closed, and a typo at the top or below is named."""
    assert closed(SCHEMA) == []
    assert "'replicass'" in fails({"replicass": 2})
    assert "'repo'" in fails({"image": {"repo": "x"}})
    assert "'delay'" in fails({"probes": {"startup": {"delay": 1}}})


def test_schema_and_values_know_the_same_keys() -> None:
    """Every value has its schema, and every key of the schema's top level is a value, a removed key, or Helm's own."""
    assert unknown(VALUES, SCHEMA) == []
    assert set(SCHEMA["properties"]) - set(VALUES) - set(REMOVED) == {"global"}
    assert all(key == "global" or SCHEMA["properties"][key] for key in SCHEMA["properties"])


def test_a_parent_chart_may_share_its_values() -> None:
    """Helm hands `global` to every part of a chart, so it is let through."""
    assert render({"global": {"region": "eu-west-1"}}).only("Deployment")

"""The deployment config as a JSON schema and as its defaults, for files that are not written in Python (Helm values).

`python -m eagle3.config.schema` prints the schema, `python -m eagle3.config.schema --defaults` the defaults. Knows no
charts. Invariant: every definition stands where it is used, so the schema can be put into another one as it is.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from eagle3.config.deployment import DeploymentConfig


def config_schema() -> dict[str, Any]:
    """JSON schema of a config file; unknown keys are refused at every level."""
    schema = DeploymentConfig.model_json_schema()
    definitions = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inlined(schema, definitions)
    return inlined


def config_defaults() -> dict[str, Any]:
    """Every setting with its default."""
    return DeploymentConfig().model_dump(mode="json")


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    """`node` with references replaced by what they refer to, and without titles, which only repeat the names."""
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if reference is not None:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        node = definitions[reference.rpartition("/")[2]] | beside
    return {
        key: _inlined(value, definitions) for key, value in node.items() if key != "title" or not isinstance(value, str)
    }


if __name__ == "__main__":
    made = config_defaults() if sys.argv[1:] == ["--defaults"] else config_schema()
    sys.stdout.write(json.dumps(made, indent=2) + "\n")

"""Puts the schema and the defaults of the deployment config into the chart eagle3.

`python charts/sync_config.py` after a change of runtime/eagle3/config. Knows nothing of the other values. Invariant: it
writes what `chart_schema` and `config_defaults` say, so a test can tell whether it was run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eagle3.config.schema import config_defaults, config_schema

CHART = Path(__file__).resolve().parent / "eagle3"
SCHEMA = CHART / "values.schema.json"
DEFAULTS = CHART / "files" / "config.defaults.json"


def chart_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the values with the config's schema in its place."""
    return schema | {"properties": schema["properties"] | {"config": config_schema()}}


def written(value: dict[str, Any]) -> str:
    """A JSON file's text."""
    return json.dumps(value, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(written(chart_schema(json.loads(SCHEMA.read_text(encoding="utf-8")))), encoding="utf-8")
    DEFAULTS.write_text(written(config_defaults()), encoding="utf-8")

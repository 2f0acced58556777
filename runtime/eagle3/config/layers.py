"""The deployment config from all its sources: defaults, then a file, then the environment, then flags.

A later source wins key by key. Every error names its source: the file, the variable or the flag. Reads the file,
but no environment and no command line itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eagle3.config.deployment import DeploymentConfig, load_config, parse_config
from eagle3.config.embedded import EMBEDDED
from eagle3.config.environment import environment_values, variables


def layered_config(
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, Any],
    *,
    flag_names: Mapping[str, str] = MappingProxyType({}),
) -> DeploymentConfig:
    """Settings of all sources; a target of one's own has no default draft.

    `flags` is nested like the config; `flag_names` says what they are called: {"speculation.depth": "--tree-depth"}.
    """
    layers = [
        load_config(file).model_dump(exclude_unset=True) if file is not None else {},
        environment_values(environ),
        parse_config(dict(flags), source="flags", names=flag_names).model_dump(exclude_unset=True),
    ]
    merged: dict[str, Any] = {}
    for values in layers:
        merged = _merged(merged, values, ())
    # The embedded draft belongs to the embedded target: beside another one it must be asked for, no farther away.
    is_foreign = merged.get("target", EMBEDDED) != EMBEDDED and merged.get("draft", EMBEDDED) == EMBEDDED
    if is_foreign and _nearest(layers, "draft") < _nearest(layers, "target"):
        merged["draft"] = None
    return parse_config(merged, source="settings")


def _merged(below: Mapping[str, Any], above: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        place = (*path, key)
        result[key] = _merged(result.get(key, {}), value, place) if _is_section(place) else value
    return result


def _is_section(path: tuple[str, ...]) -> bool:
    """Whether the keys below `path` are settings of their own; a mapping that is one setting is replaced whole."""
    return any(len(variable.path) > len(path) and variable.path[: len(path)] == path for variable in variables())


def _nearest(layers: list[dict[str, Any]], key: str) -> int:
    return max((rank for rank, values in enumerate(layers) if key in values), default=-1)

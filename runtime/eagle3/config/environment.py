"""The deployment config as environment variables (`EAGLE3_*`), both ways.

A variable is named after the path of its setting: EAGLE3_TARGET, EAGLE3_SPECULATION__DEPTH. Its text is read by the
type of the setting: numbers, true or false, lists and mappings as JSON. Where null is allowed, `null` and nothing at
all mean null; a text that would be mistaken for it stands in double quotes, as JSON. Reads no environment itself: the
mapping is handed in. Invariant: `parse_config(environment_values(to_environment(c)), ...)` is c.
"""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.config.embedded import EMBEDDED
from eagle3.errors import ConfigError

PREFIX = "EAGLE3_"
_NULL = "null"

# What Kubernetes adds to a container beside a Service called "eagle3" or "eagle3-...", unless enableServiceLinks is
# false. A setting has no such name, and EAGLE3_PORT only counts as one of them with such a value.
_SERVICE_LINK = re.compile(
    r"EAGLE3_(\w+_)?(SERVICE_HOST=.*|SERVICE_PORT(_\w+)?=\d*|PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://.*"
    r"|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=.*)",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """One setting as an environment variable."""

    name: str
    path: tuple[str, ...]
    """Keys from the top of the config to the setting."""
    nullable: bool
    """Whether the setting may be null."""
    is_json: bool
    """Whether the text is JSON: lists and mappings."""
    description: str


@cache
def variables() -> tuple[Variable, ...]:
    """Every variable there is, in the order of the schema."""
    return tuple(_walk(DeploymentConfig, ()))


def environment_values(environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings that the `EAGLE3_*` variables of `environ` give, nested and typed; ConfigError names a bad one."""
    by_name = {variable.name: variable for variable in variables()}
    values: dict[str, Any] = {}
    for name in sorted(environ):
        text = environ[name]
        if not name.startswith(PREFIX) or _SERVICE_LINK.fullmatch(f"{name}={text}"):
            continue
        if name not in by_name:
            raise ConfigError(_unknown(name, list(by_name)))
        variable = by_name[name]
        section = values
        for key in variable.path[:-1]:
            section = section.setdefault(key, {})
        section[variable.path[-1]] = _read(variable, text)
    names = {".".join(variable.path): variable.name for variable in variables()}
    return parse_config(values, source="environment", names=names).model_dump(exclude_unset=True)


def to_environment(config: DeploymentConfig) -> dict[str, str]:
    """The variables that make `config`: those that differ from the defaults, and the draft of a target of one's own."""
    default = DeploymentConfig().model_dump(mode="json")
    values = config.model_dump(mode="json")
    texts: dict[str, str] = {}
    for variable in variables():
        value = _at(values, variable.path)
        # A target of one's own has no default draft, so its draft is said even where it is the default.
        is_said = variable.path == ("draft",) and config.target != EMBEDDED
        if value != _at(default, variable.path) or is_said:
            texts[variable.name] = _written(variable, value)
    return texts


def _walk(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[Variable]:
    for key, field in model.model_fields.items():
        kind, place = field.annotation, (*path, key)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _walk(kind, place)
            continue
        options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
        yield Variable(
            name=PREFIX + "__".join(place).upper(),
            path=place,
            nullable=type(None) in options,
            is_json=any((get_origin(option) or option) in (tuple, list, dict) for option in options),
            description=field.description or "",
        )


def _read(variable: Variable, text: str) -> Any:
    if variable.nullable and text.strip() in ("", _NULL):
        return None
    if not variable.is_json and not (variable.nullable and text.startswith('"')):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{variable.name}: must be JSON ({error}); got {text!r} ({variable.description})") from error


def _written(variable: Variable, value: Any) -> str:
    if isinstance(value, str):
        if "\0" in value:
            raise ConfigError(
                f"{'.'.join(variable.path)} holds a NUL character, which no environment can; got {value!r}"
            )
        mistaken = variable.nullable and (value.strip() in ("", _NULL) or value.startswith('"'))
        return json.dumps(value) if mistaken else value
    return json.dumps(value)


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def _unknown(name: str, allowed: list[str]) -> str:
    close = difflib.get_close_matches(name.upper(), allowed, n=3, cutoff=0.0)
    # EAGLE3_PORT is short of a section, and by its letters nearest to something else.
    same_key = [other for other in allowed if other.endswith("__" + name.removeprefix(PREFIX))]
    nearest = list(dict.fromkeys(same_key + close))[:3]
    return (
        f"{name} is no setting; nearest: {', '.join(nearest)}; a name is {PREFIX} and the keys of the setting in "
        f"capitals, two underscores between them"
    )

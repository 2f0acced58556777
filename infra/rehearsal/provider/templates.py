"""Templates over a resource's state, and paths into an answer of the local AWS.

Knows neither Terraform nor boto3. A field is a dotted path; digits index lists; what is not there is None. A template
that is one field keeps the type of the value. Invariant: a text with a field that comes to None is None itself, so a
half-filled ARN never leaves here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jmespath  # type: ignore[import-untyped]

State = Mapping[str, Any]

_FIELD = re.compile(r"\{([a-z_][\w.]*)\}")


def fill_templates(template: Any, state: State) -> Any:
    """The value of a template: text, or mappings and lists of templates, or a function of the state."""
    if callable(template):
        return template(state)
    if isinstance(template, str):
        return _fill_text(template, state)
    if isinstance(template, Mapping):
        filled = {name: fill_templates(value, state) for name, value in template.items()}
        return {name: value for name, value in filled.items() if value is not None} or None
    if isinstance(template, (list, tuple)):
        values = [value for value in (fill_templates(each, state) for each in template) if value is not None]
        return values or None
    return template


def look_up(path: str, state: State) -> Any:
    """The value at a dotted path, or None."""
    value: Any = state
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, (list, tuple)) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return value


def extract(path: str, answer: Any) -> Any:
    """The value at a JMESPath of an answer."""
    return jmespath.search(path, answer)


def _fill_text(template: str, state: State) -> Any:
    only = _FIELD.fullmatch(template)
    if only is not None:
        return look_up(only.group(1), state)
    values = {name: look_up(name, state) for name in _FIELD.findall(template)}
    if any(value is None for value in values.values()):
        return None
    return _FIELD.sub(lambda match: _text(values[match.group(1)]), template)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

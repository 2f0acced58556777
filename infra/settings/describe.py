"""Every setting as a Markdown table: `python -m infra.settings.describe` writes docs/settings.md to stdout."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from infra.settings.load import load_settings
from infra.settings.root import Settings

_HEAD = """# Settings of the stacks

Made from the schema by `python -m infra.settings.describe`; a test compares. An environment is a file of
`infra/environments` (`EAGLE3KIT_ENVIRONMENT=prod`, or the path of a file of your own); `base.yaml` lies below each.
`EAGLE3KIT_SET='large.network.nat=single; alarms.emails=[ops@example.com]'` overrides single keys. An unknown key, and a
value that cannot be right, end synthesis with one line.

Keys of `deployment` are those of `eagle3 serve --config`; a target of one's own has no draft unless one is named.
Where small, medium and large differ by default, the environment `dev` is shown.
"""


def lines() -> Iterator[str]:
    """The document, line by line."""
    yield from _HEAD.splitlines()
    defaults = load_settings("dev").model_dump(mode="json")
    yield from _section(Settings, (), defaults)


def _section(model: type[BaseModel], path: tuple[str, ...], values: Any) -> Iterator[str]:
    below: list[tuple[type[BaseModel], tuple[str, ...], Any]] = []
    rows: list[str] = []
    for key, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        place = (*path, key)
        value = values.get(key, PydanticUndefined) if isinstance(values, dict) else PydanticUndefined
        if inner is not None and key != "deployment":
            item = value[0] if isinstance(value, list) and value else value
            many = get_origin(field.annotation) is tuple
            below.append((inner, (*place, "N") if many else place, item))
        else:
            rows.append(f"| `{key}` | {_shown(value)} | {_allowed(field.annotation)}{field.description} |")
    yield ""
    yield f"## `{'.'.join(path)}`" if path else "## Top level"
    yield ""
    if rows:
        yield from ("| key | default | meaning |", "|---|---|---|", *rows)
    else:
        yield "Sections only."
    for inner, place, value in below:
        yield from _section(inner, place, value)


def _shown(value: Any) -> str:
    if value is PydanticUndefined:
        return ""
    if isinstance(value, dict):
        return "see below" if value else "`{}`"
    return f"`{'null' if value is None else str(value).lower() if isinstance(value, bool) else value}`"


def _allowed(kind: Any) -> str:
    if get_origin(kind) is Literal and len(get_args(kind)) <= 8:
        return f"{', '.join(f'`{option}`' for option in get_args(kind))}: "
    return ""


def _model_in(kind: Any) -> type[BaseModel] | None:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    if get_origin(kind) in (tuple, Union, types.UnionType):
        return next((found for option in get_args(kind) if (found := _model_in(option)) is not None), None)
    return None


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")

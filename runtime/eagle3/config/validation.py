"""One readable error out of what pydantic found wrong with settings.

Knows no particular schema: the model is handed in. Invariant: the message names the key, what was got and, for a key
that does not exist, the keys that do and the nearest of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def first_error(
    error: ValidationError,
    model: type[BaseModel],
    *,
    source: str,
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The first error as one line; `names` says what keys are called where the source has names of its own."""
    first = error.errors(include_url=False)[0]
    place = tuple(str(part) for part in first["loc"])
    above = (".".join(place[:end]) for end in range(len(place), 0, -1))
    label = next((names[key] for key in above if key in names), f"{source}: {'.'.join(place)}" if place else source)
    allowed = ""
    if first["type"] == "extra_forbidden":
        keys = _keys_beside(model, first["loc"])
        near = difflib.get_close_matches(place[-1], keys, n=1)
        allowed = f"; did you mean {near[0]}?" if near else ""
        allowed += f"; allowed keys: {', '.join(keys)}"
    return f"{label}: {first['msg'].removeprefix('Value error, ')}; got {first['input']!r}{allowed}"


def _keys_beside(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    found: type[BaseModel] | None = model
    for part in place[:-1]:
        if found is not None and isinstance(part, str) and part in found.model_fields:
            found = _model_in(found.model_fields[part].annotation)
    return list(found.model_fields) if found is not None else []


def _model_in(kind: Any) -> type[BaseModel] | None:
    """The model that a type is or holds: `X`, `X | None`, `tuple[X, ...]`, `dict[str, X]`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((model for option in get_args(kind) if (model := _model_in(option)) is not None), None)

"""JSON objects out of the bytes of an answer, however they are cut into parts.

Reads server-sent events, JSON lines, and one whole JSON body, told apart by the answer's content type. Knows no
transport. Invariant: the objects do not depend on where the parts begin and end.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eagle3.errors import EngineUnavailableError

_FIELD = b"data:"
_END = b"[DONE]"
_WHOLE = "application/json"
_SHOWN = 200


def json_objects(parts: Iterable[bytes], *, content_type: str) -> Iterator[Mapping[str, Any]]:
    """Each object as soon as its last byte has come; EngineUnavailableError for what is not JSON."""
    if content_type.partition(";")[0].strip().lower() == _WHOLE:
        yield _decoded(b"".join(parts))
        return
    for line in _lines(parts):
        data = line.removeprefix(_FIELD).strip()
        # Comments (":…") keep a connection open; "event:", "id:" and "retry:" say nothing that is needed here.
        if not data or data.startswith((b":", b"event:", b"id:", b"retry:")):
            continue
        if data == _END:
            return
        yield _decoded(data)


def _lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
    # What follows the last line end was cut off, unless it is whole by itself, as the last of JSON lines may be.
    with contextlib.suppress(ValueError):
        json.loads(rest.removeprefix(_FIELD))
        yield rest


def _decoded(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise EngineUnavailableError(
            f"the answer is not JSON: {data[:_SHOWN]!r}; is this a server of chat completions?"
        ) from error
    if not isinstance(value, dict):
        raise EngineUnavailableError(f"the answer is no JSON object: {data[:_SHOWN]!r}")
    return value

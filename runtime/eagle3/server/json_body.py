"""Bytes of a request body to a JSON object, stricter than `json.loads`.

Refuses what two parsers would read differently (a key given twice, NaN, Infinity) and what cannot be written back as
UTF-8. Knows no fields. Invariant: whatever the bytes are, the outcome is an object or a RequestRefusedError.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from eagle3.server.refusals import RequestRefusedError

_MAX_DEPTH = 100
# The parser lets nothing else run while it builds its lists and objects, so their number is bounded before it begins:
# at these bounds it takes a tenth of a second. Characters of texts count as well; no context holds as many.
_MAX_PARTS = 100_000
_MAX_VALUES = 500_000
# Each unknown or wrong key costs the validation of fields an error object; no honest body has as many.
_MAX_KEYS = 4096
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body holds."""
    _check_size(body)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestRefusedError(f"the body is not valid UTF-8 (byte {error.start}); send JSON in UTF-8") from error
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError as error:
        raise RequestRefusedError(f"the body is nested deeper than {_MAX_DEPTH} levels") from error
    except json.JSONDecodeError as error:
        raise RequestRefusedError(f"the body is not valid JSON: {error}") from error
    except ValueError as error:  # Python reads 4300 digits
        raise RequestRefusedError("an integer of the body has more digits than any number needs") from error
    if not isinstance(value, dict):
        raise RequestRefusedError(f"the body must be a JSON object; got {type(value).__name__}")
    _check_depth(value)
    if _SURROGATE_ESCAPE.search(text):
        _check_surrogates(value)
    return value


def _check_size(body: bytes) -> None:
    parts = body.count(b"[") + body.count(b"{") + body.count(b":")
    if parts > _MAX_PARTS:
        raise RequestRefusedError(
            f"the body has {parts} brackets, braces and colons; at most {_MAX_PARTS} are allowed, send less at a time"
        )
    values = body.count(b",")
    if values > _MAX_VALUES:
        raise RequestRefusedError(f"the body has {values} commas; at most {_MAX_VALUES} are allowed; send less")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > _MAX_KEYS:
        raise RequestRefusedError(f"an object of the body has {len(pairs)} keys; at most {_MAX_KEYS} are allowed")
    made = dict(pairs)
    if len(made) != len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise RequestRefusedError(f"key {twice[:100]!a} is given twice in one object of the body; give it once")
    return made


def _no_constant(name: str) -> NoReturn:
    raise RequestRefusedError(f"{name} is not a JSON number; leave the field out or send a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise RequestRefusedError(f"number {digits[:40]} is too large; send a finite number")
    return number


def _check_depth(value: dict[str, Any]) -> None:
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        inner = (part.values() if type(part) is dict else part for part in level)
        level = [item for items in inner for item in items if type(item) in (dict, list)]
        if not level:
            return
    raise RequestRefusedError(f"the body is nested deeper than {_MAX_DEPTH} levels")


def _check_surrogates(value: Any) -> None:
    """Pairs of escapes have become characters by now; what is left has no meaning in Unicode."""
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, str) and any("\ud800" <= character <= "\udfff" for character in item):
            raise RequestRefusedError("a string of the body holds half of a surrogate pair; send whole characters")

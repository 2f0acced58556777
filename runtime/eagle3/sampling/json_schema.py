"""What may be asked as a JSON schema at all, before any grammar is made of it. Knows no tokens and no grammars.

The bounds keep the time bounded that one request can spend on compiling: everything else that is expensive has a
limit in the grammar library itself.
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_SCHEMA_BYTES = 64 * 1024
MAX_SCHEMA_DEPTH = 100  # the library's own parser gives up at 128
MAX_MULTIPLE = 50_000  # an automaton has as many states as the least common multiple: about 0.3 s


def canonical_schema(text: str) -> str:
    """The schema as ASCII JSON with its keys in their order; ValueError says what is wrong with `text`."""
    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"json_schema has {size} bytes; allowed: up to {MAX_SCHEMA_BYTES}; make the schema smaller")
    try:
        schema = json.loads(text, parse_constant=_refuse_constant)
        _check_bounds(schema)
        canonical = json.dumps(schema, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"json_schema is not JSON: {error}; give the text of a JSON schema") from error
    if not isinstance(schema, dict):
        raise ValueError(
            f'json_schema must be a JSON object; got {canonical[:80]}; {{"type":"object"}} matches any object'
        )
    return canonical


def _refuse_constant(name: str) -> None:
    raise ValueError(f"json_schema is not JSON: {name} is no JSON number")


def _too_deep() -> str:
    return f"json_schema is nested too deeply; allowed: {MAX_SCHEMA_DEPTH} levels"


def _check_bounds(schema: Any) -> None:
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    multiples: set[int] = set()
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_SCHEMA_DEPTH:
            raise ValueError(_too_deep())
        if isinstance(value, dict):
            multiples |= _multiple(value.get("multipleOf"))
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]
    product = math.prod(multiples)
    if product > MAX_MULTIPLE:
        got = str(product) if product < 10**18 else "over 1e18"
        raise ValueError(
            f"json_schema has multipleOf values whose digits multiply to {got}; allowed: up to {MAX_MULTIPLE}; "
            f"use fewer or rounder ones"
        )


def _multiple(value: Any) -> set[int]:
    """The digits of a multipleOf value as a number, without its zeros at either end: 0.25 and 2500 give 25."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return set()
    mantissa = str(value).partition("e")[0]
    digits = mantissa.replace(".", "").strip("-0")
    return {int(digits)} if digits.isdecimal() else set()  # not: inf, which is refused as no JSON

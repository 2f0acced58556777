"""Request headers that say how a request is to be handled: content type, time limit, SageMaker's custom attributes.

Knows no bodies. Invariant: nothing of a header reaches the response that was not checked to be printable ASCII.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from eagle3.server.errors import UnsupportedMediaTypeError
from eagle3.server.refusals import RequestRefusedError

TIMEOUT_HEADER = "X-Request-Timeout-S"
ATTRIBUTES_HEADER = "X-Amzn-SageMaker-Custom-Attributes"
_MAX_ATTRIBUTES = 1024
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomAttributes:
    """What `X-Amzn-SageMaker-Custom-Attributes` asks for."""

    text: str | None = None
    """The header as it came; sent back with the answer."""
    speculate: bool | None = None
    """None: as the body says."""
    timeout_s: float | None = None
    """None: the server's limit."""


def check_content_type(headers: Headers) -> None:
    """Refuse a body that says that it is not JSON in UTF-8; one that says nothing is taken for JSON."""
    named = headers.get("content-type")
    if named is None:
        return
    kind, *options = (part.strip().lower() for part in named.split(";"))
    charset = next(
        (option.partition("=")[2].strip('" ') for option in options if option.startswith("charset=")), "utf-8"
    )
    if kind != "application/json" or charset not in ("utf-8", "utf8", "us-ascii"):
        raise UnsupportedMediaTypeError(f"Content-Type must be application/json in UTF-8; got {named[:100]!a}")


def check_accept(named: str | None, *offered: str) -> None:
    """Refuse with 406 a client whose Accept header names none of the offered types."""
    if named is None:
        return
    for choice in named.split(","):
        kind, *options = (part.strip().lower() for part in choice.split(";"))
        if any(option.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for option in options):
            continue
        if kind in ("", "*/*") or any(kind in (one, f"{one.partition('/')[0]}/*") for one in offered):
            return
    raise HTTPException(406, f"Accept must allow {' or '.join(offered)}; got {named[:100]!a}")


def read_timeout(headers: Headers, *, limit_s: float) -> float | None:
    """Seconds that the client gives its request, at most the server's limit; None if it says nothing."""
    named = headers.get(TIMEOUT_HEADER)
    return None if named is None else _timeout(named, TIMEOUT_HEADER, limit_s)


def read_attributes(headers: Headers, *, limit_s: float) -> CustomAttributes:
    """`name=value` pairs between commas or semicolons; names that are not known here are left alone."""
    text = headers.get(ATTRIBUTES_HEADER)
    if text is None:
        return CustomAttributes()
    if len(text) > _MAX_ATTRIBUTES or not (text.isascii() and text.isprintable()):
        raise RequestRefusedError(
            f"{ATTRIBUTES_HEADER} must be at most {_MAX_ATTRIBUTES} printable US-ASCII characters; got {len(text)}"
        )
    speculate: bool | None = None
    timeout_s: float | None = None
    for pair in text.replace(";", ",").split(","):
        name, found, value = (part.strip() for part in pair.partition("="))
        if not found:
            continue
        if name.lower() == "speculate":
            if value.lower() not in _SWITCH:
                raise RequestRefusedError(f"{ATTRIBUTES_HEADER}: speculate must be true or false; got {value!r}")
            speculate = _SWITCH[value.lower()]
        elif name.lower() == "timeout-s":
            timeout_s = _timeout(value, f"{ATTRIBUTES_HEADER}: timeout-s", limit_s)
    return CustomAttributes(text=text, speculate=speculate, timeout_s=timeout_s)


def _timeout(value: str, name: str, limit_s: float) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not (seconds > 0 and math.isfinite(seconds)):
        raise RequestRefusedError(f"{name} must be a positive number of seconds; got {value[:40]!a}")
    return min(seconds, limit_s)

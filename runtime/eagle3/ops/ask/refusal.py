"""What a server's refusal means, as one of this product's own errors.

Knows HTTP statuses and OpenAI's error objects; no transport. Invariant: the server's message is in the error, and so
is that a text is incomplete where a part of it came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eagle3.errors import (
    ConfigError,
    DeadlineError,
    Eagle3Error,
    EngineUnavailableError,
    InvalidInputError,
    OverloadedError,
)

_RETRY_AFTER_S = 1
_MAX_MESSAGE = 600
# Errors within a stream have no status of their own.
_STATUS_OF_KIND = {"invalid_request_error": 400, "rate_limit_error": 429, "server_error": 500}
_STATUS_OF_CODE = {"deadline_exceeded": 504, "queue_full": 429, "invalid_api_key": 401, "model_not_found": 404}


def refusal(status: int | None, error: object, *, part: bool = False, retry_after: str | None = None) -> Eagle3Error:
    """The error that a status (None within a stream) and the server's error object or text stand for.

    `part` says that some of the text came already, `retry_after` is that header.
    """
    if status is None:
        known = error if isinstance(error, Mapping) else {}
        status = _STATUS_OF_CODE.get(str(known.get("code")), _STATUS_OF_KIND.get(str(known.get("type")), 500))
    ending = ": the text is incomplete" if part else ""
    said = f"{error_message(error)} (status {status})"
    if status in (401, 403):
        return ConfigError(f"the server wants another API key: {said}; set EAGLE3KIT_API_KEY")
    if status == 429:
        waits = int(retry_after) if retry_after is not None and retry_after.isdecimal() else _RETRY_AFTER_S
        return OverloadedError(
            f"the server has too many requests{ending}: {said}; ask again after {waits} s", retry_after_s=waits
        )
    if status in (408, 504):
        return DeadlineError(f"the server ran out of time{ending}: {said}")
    if 400 <= status < 500:
        return InvalidInputError(f"the server refuses the request{ending}: {said}")
    return EngineUnavailableError(f"the server cannot answer{ending}: {said}")


def error_message(error: object) -> str:
    """What a person can read in an error object, or in a body that may hold one; never empty, and of bounded size."""
    if isinstance(error, str):
        try:
            found = json.loads(error)
        except ValueError:
            found = None
        if isinstance(found, Mapping):
            return error_message(found)
        if error.lstrip().startswith("<"):
            return "a web page and no message; is the address that of the API?"
        return " ".join(error.split())[:_MAX_MESSAGE] or "no message"
    if isinstance(error, Mapping):
        for key in ("error", "message", "Message", "detail"):
            if error.get(key):
                return error_message(error[key])
    return "no message" if error is None else json.dumps(error, default=str)[:_MAX_MESSAGE]


def retry_after_of(headers: Mapping[str, Any]) -> str | None:
    """The header Retry-After."""
    value = headers.get("retry-after") or headers.get("Retry-After")
    return None if value is None else str(value)

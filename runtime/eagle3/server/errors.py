"""Errors as HTTP answers, in the shape of the OpenAI API: {"error": {"message", "type", "param", "code"}}.

A client's fault is explained to it; the server's own faults get a generic message, and their traceback goes to the
log without the exception's text, which may quote a prompt. Knows no routes.
Invariant: every body made here is valid UTF-8 JSON of bounded size, whatever the client sent.
"""

from __future__ import annotations

import logging
import reprlib
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Scope

from eagle3.errors import DeadlineError, Eagle3Error, EngineUnavailableError, InvalidInputError, OverloadedError

logger = logging.getLogger(__name__)

_MAX_MESSAGE = 1000
_RETRY_UNAVAILABLE_S = 5
_INTERNAL = "internal error; the server's log says more"
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}


class ModelNotFoundError(Eagle3Error):
    """A request that names a model which is not served here."""


class UnauthorizedError(Eagle3Error):
    """A request without an API key, or with an unknown one."""


class PayloadTooLargeError(Eagle3Error):
    """A body beyond `limits.max_body_bytes`, as sent or after decompression."""


class UnsupportedMediaTypeError(Eagle3Error):
    """A Content-Type or Content-Encoding that is not understood."""


class SlowRequestError(Eagle3Error):
    """A body that came too slowly."""


class DrainingError(EngineUnavailableError):
    """The server has been told to stop: it finishes what runs and takes on nothing new."""


class _Answer(NamedTuple):
    status: int
    kind: str
    code: str | None
    reason: str
    """Name in the metrics."""


# Most specific first.
_TABLE: dict[type[Exception], _Answer] = {
    ModelNotFoundError: _Answer(404, "invalid_request_error", "model_not_found", "invalid"),
    UnauthorizedError: _Answer(401, "invalid_request_error", "invalid_api_key", "unauthorized"),
    PayloadTooLargeError: _Answer(413, "invalid_request_error", "payload_too_large", "too_large"),
    UnsupportedMediaTypeError: _Answer(415, "invalid_request_error", "unsupported_media_type", "invalid"),
    SlowRequestError: _Answer(408, "invalid_request_error", "request_timeout", "deadline"),
    InvalidInputError: _Answer(400, "invalid_request_error", None, "invalid"),
    RequestValidationError: _Answer(400, "invalid_request_error", None, "invalid"),
    OverloadedError: _Answer(429, "rate_limit_error", "queue_full", "queue_full"),
    DrainingError: _Answer(503, "server_error", "draining", "draining"),
    EngineUnavailableError: _Answer(503, "server_error", "engine_unavailable", "engine_unavailable"),
    DeadlineError: _Answer(504, "server_error", "deadline_exceeded", "deadline"),
}


def error_body(error: BaseException) -> tuple[int, dict[str, Any]]:
    """HTTP status and body for an error; anything that is no client's fault is a 500 that says nothing more."""
    if isinstance(error, HTTPException):
        kind = "invalid_request_error" if error.status_code < 500 else "server_error"
        return error.status_code, _body(str(error.detail), kind, code=_HTTP_CODES.get(error.status_code))
    if isinstance(error, RequestValidationError):
        message, param = _first_complaint(error)
        return 400, _body(message, "invalid_request_error", param=param)
    answer = _answer(error)
    if answer is not None:
        return answer.status, _body(str(error), answer.kind, param=getattr(error, "param", None), code=answer.code)
    return 500, _body(_INTERNAL, "server_error", code="internal_error")


def reject_reason(error: BaseException) -> str | None:
    """Name of a refusal in the metrics; None for what is counted elsewhere (500s, unknown paths)."""
    answer = _answer(error)
    if answer is not None:
        return answer.reason
    return "invalid" if isinstance(error, HTTPException) and error.status_code in (400, 422) else None


def error_headers(error: BaseException) -> dict[str, str]:
    """Headers that belong to an error."""
    if isinstance(error, OverloadedError):
        return {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, DrainingError):
        return {"Retry-After": str(_RETRY_UNAVAILABLE_S), "Connection": "close"}
    if isinstance(error, EngineUnavailableError):
        return {"Retry-After": str(_RETRY_UNAVAILABLE_S)}
    if isinstance(error, UnauthorizedError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, SlowRequestError):
        return {"Connection": "close"}
    headers: Mapping[str, str] | None = getattr(error, "headers", None)
    return dict(headers) if isinstance(error, HTTPException) and headers else {}


def error_response(error: BaseException) -> JSONResponse:
    """The whole HTTP answer for an error."""
    status, body = error_body(error)
    return JSONResponse(body, status_code=status, headers=error_headers(error))


def log_unexpected(error: BaseException, where: str) -> None:
    """Log type and traceback of a fault of our own; not its text, which may quote a prompt."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("unexpected %s in %s\n%s", type(error).__name__, where, frames)


def answer_error(error: Exception, where: str, on_reject: Callable[[str], None]) -> JSONResponse:
    """The HTTP answer for an error, counted if it is a refusal and logged if it is a fault of our own."""
    reason = reject_reason(error)
    if reason is not None:
        on_reject(reason)
    elif error_body(error)[0] >= 500:
        log_unexpected(error, where)
    return error_response(error)


def install_error_handlers(app: FastAPI, on_reject: Callable[[str], None]) -> None:
    """Answer every error of the routes in one shape, and tell `on_reject` the reason of each refusal."""

    async def handle(request: Request, error: Exception) -> JSONResponse:
        return answer_error(error, where_of(request.scope), on_reject)

    for kind in (Eagle3Error, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)


def where_of(scope: Scope) -> str:
    """Method and path of a request, for the log."""
    return f"{scope['method']} {scope['path'][:200]!a}"


def _answer(error: BaseException) -> _Answer | None:
    return next((answer for kind, answer in _TABLE.items() if isinstance(error, kind)), None)


def _first_complaint(error: RequestValidationError) -> tuple[str, str | None]:
    first: Mapping[str, Any] = error.errors()[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return f"the body is not valid JSON: {first.get('ctx', {}).get('error', first['msg'])}", None
    name = ".".join(place) or None
    text = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] in ("missing", "extra_forbidden"):
        return f"{name or 'body'}: {text}", name
    return f"{name or 'body'}: {text}; got {reprlib.repr(first.get('input'))}", name


def _body(message: str, kind: str, *, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {
        "error": {
            "message": _short(message, _MAX_MESSAGE),
            "type": kind,
            "param": None if param is None else _short(param, 200),
            "code": code,
        }
    }


def _short(text: str, limit: int) -> str:
    # Lone surrogates, which JSON escapes can bring in, cannot be written as UTF-8.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= limit else text[:limit] + "…"

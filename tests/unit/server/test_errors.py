from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from eagle3.errors import (
    ConfigError,
    DeadlineError,
    Eagle3Error,
    EngineUnavailableError,
    InvalidInputError,
    NumericalError,
    OverloadedError,
    WeightsError,
)
from eagle3.server.errors import (
    DrainingError,
    ModelNotFoundError,
    PayloadTooLargeError,
    SlowRequestError,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    error_body,
    error_response,
    reject_reason,
)


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (InvalidInputError("x"), 400, "invalid"),
        (ConfigError("x"), 400, "invalid"),
        (UnauthorizedError("x"), 401, "unauthorized"),
        (ModelNotFoundError("x"), 404, "invalid"),
        (HTTPException(404, "x"), 404, None),
        (HTTPException(405, "x"), 405, None),
        (SlowRequestError("x"), 408, "deadline"),
        (PayloadTooLargeError("x"), 413, "too_large"),
        (UnsupportedMediaTypeError("x"), 415, "invalid"),
        (OverloadedError("x", retry_after_s=7), 429, "queue_full"),
        (EngineUnavailableError("x"), 503, "engine_unavailable"),
        (DrainingError("x"), 503, "draining"),
        (DeadlineError("x"), 504, "deadline"),
        (NumericalError("secret"), 500, None),
        (WeightsError("secret"), 500, None),
        (Eagle3Error("secret"), 500, None),
        (ValueError("secret"), 500, None),
        (KeyError("secret"), 500, None),
    ],
)
def test_every_error_has_a_status_and_one_shape(error: Exception, status: int, reason: str | None) -> None:
    """Clients' faults keep their words; the server's own say nothing of what happened."""
    got, body = error_body(error)
    assert (got, reject_reason(error)) == (status, reason)
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert "secret" not in json.dumps(body)


def test_headers_that_belong_to_errors() -> None:
    """Retry-After on 429 and 503, WWW-Authenticate on 401."""
    assert error_response(OverloadedError("x", retry_after_s=7)).headers["retry-after"] == "7"
    assert "retry-after" in error_response(EngineUnavailableError("x")).headers
    assert error_response(DrainingError("x")).headers["connection"] == "close"
    assert error_response(UnauthorizedError("x")).headers["www-authenticate"] == "Bearer"
    assert error_response(HTTPException(405, "x", headers={"Allow": "GET"})).headers["allow"] == "GET"


@pytest.mark.parametrize("text", ["\ud800", "x" * 100_000, "\0\x1b[31m\n"])
def test_hostile_texts_become_bounded_valid_json(text: str) -> None:
    """Whatever a message quotes, the body can be written and read, and is short."""
    body = bytes(error_response(InvalidInputError(text)).body)
    assert len(body) < 5000
    assert json.loads(body.decode("utf-8"))["error"]["message"]


def test_validation_errors_name_the_field() -> None:
    """The first complaint, with its place and what was got, shortened however deep or long it is."""
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    complaint = {"type": "int_type", "loc": ("body", "n"), "msg": "Input should be a valid integer", "input": deep}
    status, body = error_body(RequestValidationError([complaint]))
    assert status == 400
    assert body["error"]["param"] == "n"
    assert body["error"]["message"].startswith("n: Input should be a valid integer; got [")
    assert len(body["error"]["message"]) < 500

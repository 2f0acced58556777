"""Middleware that names every request: `X-Request-Id` as the client sent it, or a new one.

Pure ASGI; knows no routes. Invariant: every response has the header, and its value is printable ASCII.
"""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-Id"
_MAX_CHARACTERS = 128


class RequestId:
    """Also puts the name into `request.state.request_id`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "").strip()
        sane = 0 < len(given) <= _MAX_CHARACTERS and given.isascii() and given.isprintable()
        request_id = given if sane else secrets.token_hex(16)
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault(HEADER, request_id)
            await send(message)

        await self._app(scope, receive, named)

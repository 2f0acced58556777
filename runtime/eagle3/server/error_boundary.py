"""Outermost middleware: whatever is raised inside it becomes an answer in the API's error shape.

Pure ASGI. Invariant: no exception leaves it but cancellation; one that comes after the response began cuts the response
short, so that the client sees a broken answer and not a complete one.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eagle3.server.errors import answer_error, log_unexpected, where_of


class ErrorBoundary:
    """Answers what other middleware and routes raise."""

    def __init__(self, app: ASGIApp, *, on_reject: Callable[[str], None]) -> None:
        """`on_reject` is told the reason of each refusal."""
        self._app = app
        self._on_reject = on_reject

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def watched(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if began:
                log_unexpected(error, where_of(scope))
            else:
                await answer_error(error, where_of(scope), self._on_reject)(scope, receive, send)

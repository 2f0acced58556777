"""From a request's body to its response: read, generate, and give up when the client has gone.

Knows no fields. Invariant: what can be refused is refused before the response begins; when this returns without a
stream or raises, nothing of the request is left in the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from eagle3.engine.answer import Answer
from eagle3.server.disconnect import ClientGoneError, unless_gone
from eagle3.server.gateway import Gateway
from eagle3.server.json_body import parse_object
from eagle3.server.request_headers import check_content_type
from eagle3.server.shape import Shape
from eagle3.server.sse import Deltas, StreamedResponse, events
from eagle3.server.tracing import trace_answers

_THREAD_FROM_BYTES = 65_536
_ANONYMOUS = "anonymous"
# Nobody reads it; logs and metrics tell it from an answer. The number is nginx's.
_CLIENT_CLOSED_REQUEST = 499


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object in a request's body."""
    check_content_type(request.headers)
    try:
        body = await request.body()
        # A thread cannot hold up other clients' streams for as long as a large body takes.
        return await asyncio.to_thread(parse_object, body) if len(body) > _THREAD_FROM_BYTES else parse_object(body)
    except ClientDisconnect as error:
        raise ClientGoneError from error


def client_gone() -> Response:
    """The response to a client that went away."""
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def respond(
    request: Request,
    gateway: Gateway,
    shape: Shape,
    *,
    timeout_s: float | None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Generate, and answer in the asked shape; ClientGoneError when the client went away before the response began."""
    tenant: str = getattr(request.state, "tenant", _ANONYMOUS)
    # AsyncIterator has no aclose, but the gateway's is a generator.
    deltas = cast(Deltas, gateway.generate(shape.job.requests, tenant=tenant, timeout_s=timeout_s))
    if not shape.job.stream:
        answers = await unless_gone(request.receive, _collect(deltas, len(shape.job.requests)))
        trace_answers(shape.job, answers)
        body = shape.whole(answers).model_dump_json(exclude_unset=True)
        return Response(body, media_type="application/json", headers=dict(headers or {}))
    try:
        # The status depends on it: a full queue or a dead engine shows before the first delta.
        first = await unless_gone(request.receive, anext(deltas))
    except BaseException:
        await deltas.aclose()
        raise
    return StreamedResponse(events(shape, first, deltas), headers=headers)


async def _collect(deltas: Deltas, count: int) -> list[Answer]:
    answers: dict[int, Answer] = {}
    async with aclosing(deltas):
        async for position, delta in deltas:
            if delta.answer is not None:
                answers[position] = delta.answer
    return [answers[position] for position in range(count)]

"""Server-sent events: the chunks of a response as a stream that ends when the client goes.

Knows Shape and nothing of its contents. Invariant: however the stream ends, the deltas' iterator is closed, which
cancels what the engine has not finished; an error after the beginning is an event, never silence.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from eagle3.engine.answer import Answer
from eagle3.engine.interface import Delta
from eagle3.errors import Eagle3Error
from eagle3.server.disconnect import ClientGoneError, unless_gone
from eagle3.server.errors import error_body
from eagle3.server.shape import Shape
from eagle3.server.tracing import trace_answers

Deltas = AsyncGenerator[tuple[int, Delta], None]

EVENT_STREAM = "text/event-stream"
_DONE = b"data: [DONE]\n\n"
# Line ends of Unicode that some clients split at, though only CR and LF end a line of an event stream.
_LINE_ENDS = {text.encode(): ascii(text)[1:-1].encode() for text in ("\u2028", "\u2029")} | {
    "\x85".encode(): b"\\u0085"
}


async def events(shape: Shape, first: tuple[int, Delta], deltas: Deltas) -> AsyncGenerator[bytes, None]:
    """One event a chunk; `first` came out of `deltas` already."""
    answers: list[Answer] = []
    try:
        for chunk in shape.opening():
            yield _event(chunk)
        async for position, delta in _all(first, deltas):
            for chunk in shape.chunks(position, delta):
                yield _event(chunk)
            if delta.answer is not None:
                answers.append(delta.answer)
        trace_answers(shape.job, answers)
        if shape.job.include_usage:
            yield _event(shape.counts(answers))
        yield _DONE
    except Eagle3Error as error:
        yield _error_event(error)
    except Exception as error:
        yield _error_event(error)
        raise  # a fault of our own: the client is told that it happened, the server's log what it was
    finally:
        await deltas.aclose()


class StreamedResponse(Response):
    """Sends what an iterator gives for as long as the client is there."""

    def __init__(
        self,
        body: AsyncGenerator[bytes, None],
        *,
        media_type: str = EVENT_STREAM,
        headers: Mapping[str, str] | None = None,
        frame: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """`frame` wraps each piece of the body for transport."""
        self.body_iterator = body
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self._frame = frame
        # Proxies such as nginx hold back what they buffer.
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"} | dict(headers or {}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_gone(receive, self._send(send))
        except ClientGoneError:
            return  # nobody is there to be told
        finally:
            await self.body_iterator.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self.body_iterator:
            await send({"type": "http.response.body", "body": self._frame(piece), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _all(first: tuple[int, Delta], rest: Deltas) -> Deltas:
    yield first
    async for item in rest:
        yield item


def _event(chunk: BaseModel) -> bytes:
    return _data(chunk.model_dump_json(exclude_unset=True).encode())


def _error_event(error: Exception) -> bytes:
    return _data(json.dumps(error_body(error)[1], separators=(",", ":")).encode())


def _data(text: bytes) -> bytes:
    for line_end, escape in _LINE_ENDS.items():
        text = text.replace(line_end, escape)
    return b"data: " + text + b"\n\n"

"""Reads the body of every request before the routes do: bounded in bytes, in time, and after decompression.

Pure ASGI. Knows no content. Invariant: the app behind it sees a complete, decompressed body of at most `max_bytes`, or
is not called; no body makes more than `max_bytes` be held, however well it compresses.
"""

from __future__ import annotations

import asyncio
import zlib

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eagle3.errors import InvalidInputError
from eagle3.server.errors import PayloadTooLargeError, SlowRequestError, UnsupportedMediaTypeError

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_MAX_MEMBERS = 64  # a gzip file may hold several, empty ones too; each costs a fresh decompressor


class BodyLimit:
    """Middleware; what it raises is answered by the middleware around it."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, idle_s: float, total_s: float) -> None:
        """`idle_s` is the pause allowed within a body, `total_s` the time for all of it."""
        self._app = app
        self._max_bytes = max_bytes
        self._idle_s = idle_s
        self._total_s = total_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        self._check_length(headers)
        coding = headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("identity", "gzip", ""):
            raise UnsupportedMediaTypeError(f"Content-Encoding must be gzip or identity; got {coding[:40]!a}")
        body = await self._read(receive)
        if body is None:
            return  # the client went away: nobody to answer
        if coding == "gzip":
            body = gunzip(body, self._max_bytes)
            _forget_encoding(scope, len(body))
        await self._app(scope, _replay(body, receive), send)

    def _check_length(self, headers: Headers) -> None:
        length = headers.get("content-length")
        if length is not None and length.isdecimal() and int(length[:20]) > self._max_bytes:
            raise self._too_large(f"{length[:20]} bytes")

    async def _read(self, receive: Receive) -> bytes | None:
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._total_s):
                while True:
                    async with asyncio.timeout(self._idle_s):
                        message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    if size > self._max_bytes:
                        raise self._too_large("more")
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise SlowRequestError(
                f"the body stopped coming ({size} bytes came); send it within {self._total_s:g} s, "
                f"with pauses of at most {self._idle_s:g} s"
            ) from None

    def _too_large(self, got: str) -> PayloadTooLargeError:
        return PayloadTooLargeError(
            f"the body has {got}; limits.max_body_bytes allows {self._max_bytes}; send a shorter one"
        )


def gunzip(data: bytes, max_bytes: int) -> bytes:
    """Decompressed gzip data; PayloadTooLargeError as soon as it exceeds `max_bytes`."""
    out = bytearray()
    rest = data
    try:
        for _ in range(_MAX_MEMBERS):
            member = zlib.decompressobj(_GZIP_WINDOW)
            # One byte more than allowed tells "exactly the limit" from "beyond it".
            out += member.decompress(rest, max_bytes + 1 - len(out))
            if len(out) > max_bytes:
                raise PayloadTooLargeError(
                    f"the gzip body decompresses to more than limits.max_body_bytes = {max_bytes}; send a shorter one"
                )
            if not member.eof:
                raise InvalidInputError("the gzip body is truncated; send all of it")
            rest = member.unused_data.lstrip(b"\0")
            if not rest:
                return bytes(out)
    except zlib.error as error:
        raise InvalidInputError(f"the body is not valid gzip: {error}") from None
    raise InvalidInputError(f"the gzip body has more than {_MAX_MEMBERS} members; compress it as one")


def _forget_encoding(scope: Scope, length: int) -> None:
    kept = [(name, value) for name, value in scope["headers"] if name not in (b"content-encoding", b"content-length")]
    scope["headers"] = [*kept, (b"content-length", str(length).encode())]


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay

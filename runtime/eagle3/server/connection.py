"""One HTTP connection, watched: uvicorn's protocol with limits on silence, on slow heads and on readers that stopped.

uvicorn closes a kept-alive connection that stays silent, but waits for ever for a first request, for the rest of a
head, and for a client that does not read. Bodies are watched by `BodyLimit`, which can answer; here the connection is
cut. Knows no routes. Invariant: a connection that makes no progress is closed within `idle_s`, and a request whose body
nobody waits for any more within `total_s`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_MAX_HEAD_BYTES = 65_536
_UPGRADE_HEADERS = (b"connection", b"upgrade", b"http2-settings")


class WatchedProtocol(HttpToolsProtocol):
    """Knows since when it waits for what; `overdue` is asked from outside, regularly."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._quiet_since_s: float | None = self.loop.time()  # no request is there, and none has begun
        self._head_since_s: float | None = None
        self._receiving_since_s: float | None = None
        self._unread_since_s: float | None = None
        self._head_bytes = 0
        self._declined = False  # the head asked for another protocol and is read again without that

    def overdue(self, now_s: float, *, idle_s: float, total_s: float) -> bool:
        """Whether the client has kept the connection waiting for too long."""
        waits = (
            (self._quiet_since_s, idle_s),
            (self._head_since_s, idle_s),
            (self._receiving_since_s, total_s + idle_s),
            (self._unread_since_s, idle_s),
        )
        return any(since_s is not None and now_s - since_s > limit_s for since_s, limit_s in waits)

    def cut(self) -> None:
        """Close the connection now; what is being answered on it is cancelled as if the client had gone."""
        if self._unread_since_s is not None:
            self.transport.abort()  # what is not read would never be flushed
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._read_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("the request is not valid HTTP/1.1")
        else:
            if self._head_since_s is not None and self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large", f"the head exceeds {_MAX_HEAD_BYTES} bytes")

    def _read_without_upgrade(self, rest: bytes) -> None:
        """The parser gives up at a head that asks for another protocol, as Java's client does for HTTP/2; it may be
        declined by answering the request as it is.
        """
        kept = [b"%s: %s\r\n" % header for header in self.headers if header[0] not in _UPGRADE_HEADERS]
        head = b"%s %s HTTP/1.1\r\n%s\r\n" % (self.parser.get_method(), self.url, b"".join(kept))
        self.parser = httptools.HttpRequestParser(self)
        self._declined = False
        self.data_received(head + rest)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._quiet_since_s = None
        self._head_since_s = self._receiving_since_s = self.loop.time()

    def on_headers_complete(self) -> None:
        self._head_since_s = None
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._declined = True
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._declined:
            return
        self._receiving_since_s = None
        self._head_bytes = 0
        super().on_message_complete()
        if self.cycle.response_complete:  # answered before its body had come
            self._quiet_since_s = self.loop.time()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self._receiving_since_s is None:
            self._quiet_since_s = self.loop.time()

    def pause_writing(self) -> None:
        self._unread_since_s = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unread_since_s = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(b"400 Bad Request", msg)

    def _refuse(self, status: bytes, message: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_http"}
        body = json.dumps({"error": error}).encode()
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, len(body)) + body)
        self.transport.close()


class ConnectionWatch:
    """Cuts the connections of one server that are overdue."""

    def __init__(self, *, idle_s: float, total_s: float, clock: Callable[[], float]) -> None:
        """`clock` is the event loop's."""
        self._idle_s = idle_s
        self._total_s = total_s
        self._clock = clock

    def look(self, state: ServerState) -> int:
        """Look at every connection once; returns how many were cut."""
        now_s = self._clock()
        overdue = [
            connection
            for connection in state.connections
            if isinstance(connection, WatchedProtocol)
            and connection.overdue(now_s, idle_s=self._idle_s, total_s=self._total_s)
        ]
        for connection in overdue:
            connection.cut()
        return len(overdue)

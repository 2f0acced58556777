"""uvicorn with this server's life cycle: watched connections, a drain on the first signal, an end on the second.

Knows no routes. Invariant: after the first SIGTERM or SIGINT the port stays open, so that requests are answered with
503 and not refused, until what runs has finished or the drain's time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from eagle3.config.limits import Limits
from eagle3.server.connection import ConnectionWatch, WatchedProtocol
from eagle3.server.gateway import Gateway

_FLUSH_S = 3
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class HttpServer(uvicorn.Server):
    """Serves one app until it is told to stop."""

    def __init__(
        self,
        app: FastAPI,
        gateway: Gateway,
        limits: Limits,
        *,
        on_ready: Callable[[], None] = lambda: None,
        on_drain: Callable[[], None] = lambda: None,
        on_hangup: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_ready` is called when the model answers for the first time, `on_hangup` on every SIGHUP."""
        super().__init__(
            uvicorn.Config(
                app,
                http=WatchedProtocol,
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=math.ceil(limits.idle_connection_s),
                timeout_graceful_shutdown=_FLUSH_S,
            )
        )
        self._gateway = gateway
        self._limits = limits
        self._on_ready = on_ready
        self._on_drain = on_drain
        self._on_hangup = on_hangup
        self._watch: ConnectionWatch | None = None
        self._was_ready = False
        self._draining: asyncio.Task[None] | None = None
        self.stopped_by: signal.Signals | None = None
        """The signal that ended it at once; None after an orderly end."""

    async def on_tick(self, counter: int) -> bool:
        if self._watch is None:
            self._watch = ConnectionWatch(
                idle_s=self._limits.idle_connection_s,
                total_s=self._limits.timeout_s,
                clock=asyncio.get_running_loop().time,
            )
        self._watch.look(self.server_state)
        if not self._was_ready and self._gateway.ready:
            self._was_ready = True
            self._on_ready()
        return await super().on_tick(counter)

    def stop(self, received: signal.Signals) -> None:
        """Drain and end; called again, end at once."""
        if self._draining is None:
            self._on_drain()
            self._draining = asyncio.get_running_loop().create_task(self._drain())
            return
        self.stopped_by = received
        self._gateway.abort("the server was told to stop at once")
        self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:  # uvicorn leaves it out then, but the engine may have processes to end
            await self.lifespan.shutdown()

    async def _drain(self) -> None:
        await self._gateway.drain(self._limits.drain_s)
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals of the main thread; uvicorn's own handlers would close the port first and re-raise at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        try:
            yield
        finally:
            for number in (*_STOP_SIGNALS, signal.SIGHUP):
                loop.remove_signal_handler(number)

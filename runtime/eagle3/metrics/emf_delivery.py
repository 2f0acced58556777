"""Delivery of records by a thread, so that a blocked stdout or agent never blocks the event loop.

Knows no metrics. Invariant: every record given to `offer` is either delivered or reported to `on_dropped` (from either
thread); `offer` returns at once.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from eagle3.errors import ConfigError

log = logging.getLogger(__name__)

DEFAULT_AGENT = "tcp://127.0.0.1:25888"
_TIMEOUT_S = 5.0
_QUEUED_RECORDS = 1000


class Transport(Protocol):
    """Takes one record at a time; OSError if it was not delivered."""

    def send(self, line: bytes) -> None: ...

    def close(self) -> None: ...


class DescriptorTransport:
    """Lines on a file descriptor, such as stdout's; it stays open.

    Written without Python's buffer: a thread blocked inside that buffer's lock would stop the process from ending.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._torn = False

    def send(self, line: bytes) -> None:
        rest = memoryview(b"\n" + line if self._torn else line)
        self._torn = False
        while rest:
            written = os.write(self._descriptor, rest)
            rest = rest[written:]
            self._torn = bool(rest)  # if the next write fails, the next record begins on a line of its own

    def close(self) -> None:
        """The descriptor belongs to the caller."""


class UdpTransport:
    """One datagram a record, to a CloudWatch agent."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def send(self, line: bytes) -> None:
        family, kind, protocol, _, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sender:
            sender.sendto(line, address)

    def close(self) -> None:
        """Nothing is kept open."""


class TcpTransport:
    """Lines over one connection to a CloudWatch agent; opened when needed and opened again once if it broke.

    A peer that went away shows at the second write only, so the agent's restart may cost one record uncounted.
    """

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None

    def send(self, line: bytes) -> None:
        was_open = self._socket is not None
        try:
            self._send(line)
        except OSError:
            self.close()
            if not was_open:
                raise
            self._send(line)

    def _send(self, line: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_S)
        self._socket.sendall(line)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def agent_transport(endpoint: str | None) -> Transport:
    """Transport to an agent; ConfigError for anything but tcp://host:port and udp://host:port."""
    text = endpoint or DEFAULT_AGENT
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    else:
        if parts.scheme not in ("tcp", "udp") or parts.path not in ("", "/") or parts.query or parts.username:
            host = None
    if not host or not port:
        raise ConfigError(f"metrics.agent_endpoint: got {text!r}; give tcp://HOST:PORT or udp://HOST:PORT")
    return UdpTransport(host, port) if parts.scheme == "udp" else TcpTransport(host, port)


class RecordWriter:
    """A thread that sends records in order; a full queue or a failed send drops records, and says so once a burst."""

    def __init__(
        self, transport: Transport, on_dropped: Callable[[int], None], *, capacity: int = _QUEUED_RECORDS
    ) -> None:
        self._transport = transport
        self._on_dropped = on_dropped
        self._queue: queue.Queue[str | None] = queue.Queue(maxsize=capacity)
        self._failing = False
        self._full = False
        # A daemon: a thread stuck in a write must not keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="emf-writer", daemon=True)
        self._thread.start()

    def offer(self, records: Sequence[str]) -> None:
        """Queue records; those for which there is no room are dropped."""
        for place, record in enumerate(records):
            try:
                self._queue.put_nowait(record)
            except queue.Full:
                dropped = len(records) - place
                self._on_dropped(dropped)
                if not self._full:
                    log.warning("CloudWatch records are not being taken; dropped %d and will drop on", dropped)
                self._full = True
                return
        self._full = False

    def close(self, timeout_s: float) -> None:
        """Deliver what is queued, for at most `timeout_s` seconds; blocks."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            log.warning("CloudWatch records are not being taken; giving up on %d", self._queue.qsize())
            return
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (record := self._queue.get()) is not None:
            try:
                self._transport.send(record.encode() + b"\n")
            except OSError as error:
                self._on_dropped(1)
                if not self._failing:
                    log.warning("CloudWatch record not delivered, dropping until it works again: %s", error)
                self._failing = True
            else:
                if self._failing:
                    log.warning("CloudWatch records are delivered again")
                self._failing = False
        self._transport.close()

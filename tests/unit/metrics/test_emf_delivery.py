"""Delivery of records off the event loop."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from eagle3.errors import ConfigError
from eagle3.metrics.emf_delivery import (
    DescriptorTransport,
    RecordWriter,
    TcpTransport,
    UdpTransport,
    agent_transport,
)
from metrics_doubles import FailingTransport, ListTransport, StuckTransport


@pytest.fixture
def listener():
    """A TCP server that only listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        yield server


def read_line(connection):
    """One line of a connection."""
    connection.settimeout(5)
    with connection.makefile("rb") as stream:
        return stream.readline()


def test_records_arrive_in_order_and_close_waits_for_them():
    """What was offered before `close` is delivered, one line a record."""
    transport, dropped = ListTransport(), []
    writer = RecordWriter(transport, dropped.append)
    writer.offer(["a", "b"])
    writer.offer(["c"])
    writer.close(5.0)
    assert transport.lines == [b"a\n", b"b\n", b"c\n"]
    assert transport.closed
    assert dropped == []


def test_a_failing_transport_is_logged_once_a_burst(caplog):
    """Each lost record is counted; the log has one warning when it begins and one when it ends."""
    transport, dropped = FailingTransport(), []
    writer = RecordWriter(transport, dropped.append)
    writer.offer(["a", "b", "c"])
    deadline = time.monotonic() + 5
    while sum(dropped) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    transport.broken = False
    writer.offer(["d", "e"])
    writer.close(5.0)
    assert sum(dropped) == 3
    assert transport.lines == [b"d\n", b"e\n"]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "nobody listens" in caplog.text
    assert "delivered again" in caplog.text


def test_a_stuck_transport_never_blocks_offer(caplog):
    """While a write hangs, `offer` returns at once, what finds no room is counted, and `close` gives up in time."""
    transport, dropped = StuckTransport(), []
    writer = RecordWriter(transport, dropped.append, capacity=3)
    writer.offer(["first"])
    assert transport.entered.wait(5)
    start = time.monotonic()
    writer.offer([str(number) for number in range(5)])
    writer.offer(["more", "yet more"])
    writer.close(0.1)
    assert time.monotonic() - start < 2
    assert sum(dropped) == 4
    assert caplog.text.count("dropped") == 1
    transport.release.set()


def test_descriptor_gets_whole_lines_through_a_small_pipe():
    """A record larger than the pipe's buffer arrives whole."""
    reader, writer = os.pipe()
    line = b"x" * 300_000 + b"\n"
    thread = threading.Thread(target=DescriptorTransport(writer).send, args=(line,))
    thread.start()
    with os.fdopen(reader, "rb") as stream:
        assert stream.readline() == line
    thread.join()
    os.close(writer)


def test_descriptor_begins_anew_after_a_torn_line():
    """After a write that failed half-way, the next record stands on a line of its own."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    transport = DescriptorTransport(writer)
    with pytest.raises(BlockingIOError):
        transport.send(b"x" * 1_000_000 + b"\n")
    torn = os.read(reader, 2_000_000)
    transport.send(b"next\n")
    assert torn == b"x" * len(torn)
    assert os.read(reader, 100) == b"\nnext\n"
    os.close(reader)
    os.close(writer)


def test_tcp_keeps_one_connection(listener):
    """Records share a connection."""
    transport = TcpTransport(*listener.getsockname())
    transport.send(b"one\n")
    transport.send(b"two\n")
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as stream:
        assert [stream.readline(), stream.readline()] == [b"one\n", b"two\n"]
    transport.close()


def test_tcp_connects_again_when_the_agent_restarts(listener):
    """After the agent closed the connection, later records arrive over a new one."""
    transport = TcpTransport(*listener.getsockname())
    transport.send(b"one\n")
    connection, _ = listener.accept()
    assert read_line(connection) == b"one\n"
    connection.close()
    for _ in range(5):  # the first write after the close may still vanish into the old connection
        transport.send(b"again\n")
        time.sleep(0.02)
    connection, _ = listener.accept()
    with connection:
        assert read_line(connection) == b"again\n"
    transport.close()


def test_tcp_without_an_agent():
    """Nobody listening is an OSError, which the writer counts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(OSError, match="refused"):
        TcpTransport(*address).send(b"one\n")


def test_udp_sends_datagrams():
    """One datagram a record."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        UdpTransport(*receiver.getsockname()).send(b"one\n")
        assert receiver.recv(100) == b"one\n"


@pytest.mark.parametrize(
    ("endpoint", "kind"),
    [(None, TcpTransport), ("tcp://agent:25888", TcpTransport), ("udp://[::1]:25888/", UdpTransport)],
)
def test_accepts_endpoints(endpoint, kind):
    """No endpoint means the agent on this host over TCP."""
    assert isinstance(agent_transport(endpoint), kind)


@pytest.mark.parametrize(
    "endpoint",
    ["agent:25888", "http://agent:80", "tcp://agent", "tcp://:25888", "tcp://agent:0", "tcp://agent:99999",
     "tcp://agent:25888/path", "tcp://user@agent:25888", "tcp://[::1:25888"],
)  # fmt: skip
def test_refuses_endpoints(endpoint):
    """Anything else is refused with the setting, what was got and what is allowed."""
    with pytest.raises(ConfigError, match=r"metrics\.agent_endpoint: got .*; give tcp://HOST:PORT or udp://HOST:PORT"):
        agent_transport(endpoint)

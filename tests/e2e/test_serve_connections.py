"""Clients that misbehave on the level of connections: the server lives, lets go of them, and serves the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import Any

import psutil
import pytest

from server_doubles import ScriptedEngine
from serving_doubles import GOOD, RunningServer, raw_request, running_server

IDLE_S = 0.4
QUICK: dict[str, Any] = {"limits": {"idle_connection_s": IDLE_S}}


async def good_answer(server: RunningServer) -> str:
    """The text of the good request, which must be answered."""
    answer = await server.client.post("/v1/completions", json=GOOD)
    assert answer.status_code == 200
    text: str = answer.json()["choices"][0]["text"]
    return text


async def read_status(reader: asyncio.StreamReader) -> int:
    """Status of the next response."""
    return int((await reader.readline()).split()[1])


async def test_two_hundred_silent_connections_are_closed_and_nobody_waits_for_them() -> None:
    """They cost no one else anything while they last, and are gone after the idle time."""
    async with running_server(ScriptedEngine(), **QUICK) as server:
        before = await good_answer(server)
        silent = [await server.connect() for _ in range(200)]
        assert await asyncio.wait_for(good_answer(server), 2.0) == before
        async with asyncio.timeout(IDLE_S + 2.0):
            assert [await reader.read() for reader, _ in silent] == [b""] * 200
        for _, writer in silent:
            writer.close()
        assert await good_answer(server) == before
        assert len(server.server.server_state.connections) <= 1  # the good client's


@pytest.mark.parametrize(
    "sent",
    [b"POST /v1/comp", b"GET /health HTTP/1.1\r\nhost: x\r\n", b"\r\n\r\n\r\n"],
    ids=["half a line", "half a head", "empty lines"],
)
async def test_half_a_head_is_cut(sent: bytes) -> None:
    """A client that keeps sending a byte now and then has no more time than one that sends nothing."""
    async with running_server(ScriptedEngine(), **QUICK) as server:
        reader, writer = await server.connect()
        writer.write(sent)
        trickle = asyncio.create_task(_trickle(writer, b"\r\n" if sent.isspace() else b"x"))
        async with asyncio.timeout(IDLE_S + 2.0):
            with contextlib.suppress(ConnectionResetError):  # a byte came after the end
                assert await reader.read() == b""
        trickle.cancel()
        await asyncio.wait([trickle])
        writer.close()


async def _trickle(writer: asyncio.StreamWriter, byte: bytes) -> None:
    while True:
        await asyncio.sleep(0.05)
        writer.write(byte)


async def test_half_a_body_is_told_so_and_cut() -> None:
    """A body that stops coming gets 408 in the usual shape, and the connection ends."""
    async with running_server(ScriptedEngine(), **QUICK) as server:
        reader, writer = await server.connect()
        whole = raw_request(json.dumps(GOOD).encode())
        writer.write(whole[:-10])
        async with asyncio.timeout(IDLE_S + 2.0):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "request_timeout"
        writer.close()


async def test_silence_after_a_body_that_nobody_wanted_is_cut() -> None:
    """The answer came before the body did; what follows the body is silence like any other."""
    async with running_server(ScriptedEngine(), limits=QUICK["limits"] | {"max_body_bytes": 1024}) as server:
        reader, writer = await server.connect()
        writer.write(raw_request(b"", headers={"content-length": "2000"}))
        assert await read_status(reader) == 413
        writer.write(b"x" * 2000)
        async with asyncio.timeout(IDLE_S + 2.0):
            await reader.read()
        writer.close()


async def test_a_body_that_trickles_has_the_requests_time_and_no_more() -> None:
    """Pauses within the idle time do not stretch a request beyond its limit."""
    limits = {"idle_connection_s": 5.0, "timeout_s": 0.5}
    async with running_server(ScriptedEngine(), limits=limits) as server:
        reader, writer = await server.connect()
        writer.write(raw_request(b'{"model":', headers={"content-length": "100000"}))
        trickle = asyncio.create_task(_trickle(writer, b" "))
        async with asyncio.timeout(3.0):
            assert await read_status(reader) == 408
        trickle.cancel()
        await asyncio.wait([trickle])
        writer.close()


async def test_heads_beyond_the_limit_are_refused() -> None:
    """A head of 60 kB is read; one that goes on and on gets 431."""
    async with running_server(ScriptedEngine()) as server:
        for size, status in ((60_000, 200), (200_000, 431)):
            reader, writer = await server.connect()
            writer.write(raw_request(json.dumps(GOOD).encode(), headers={"x-long": "y" * size}))
            assert await read_status(reader) == status
            writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        raw_request(b"{}", headers={"content-length": "2\r\ncontent-length: 9"}),
        raw_request(b"{}", headers={"content-length": "-1"}),
        raw_request(b"{}", headers={"content-length": "0x2"}),
        raw_request(b"{}", headers={"transfer-encoding": "chunked"}),
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT host:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /health HTTP/9.9\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\nx y: z\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n",
    ],
)
async def test_what_is_not_http_gets_a_4xx(sent: bytes) -> None:
    """Never a 5xx, never silence; the next client is served."""
    async with running_server(ScriptedEngine(), **QUICK) as server:
        reader, writer = await server.connect()
        writer.write(sent)
        async with asyncio.timeout(IDLE_S + 2.0):
            assert 400 <= await read_status(reader) < 500
        writer.close()
        assert await good_answer(server)


async def test_upgrades_are_not_taken() -> None:
    """A WebSocket or HTTP/2 upgrade is answered as the plain request that it also is."""
    async with running_server(ScriptedEngine()) as server:
        for protocol in ("websocket", "h2c"):
            reader, writer = await server.connect()
            upgrade = {"connection": "upgrade", "upgrade": protocol, "sec-websocket-key": "x"}
            writer.write(raw_request(json.dumps(GOOD).encode(), headers=upgrade))
            async with asyncio.timeout(2.0):
                assert await read_status(reader) == 200
            writer.close()


async def test_a_reader_that_stops_does_not_stop_others_and_is_cut() -> None:
    """The engine is freed, memory does not grow with what is not read, and the connection ends."""
    engine = ScriptedEngine()
    limits = {"idle_connection_s": IDLE_S, "timeout_s": 20.0}
    async with running_server(engine, limits=limits) as server:
        before = await good_answer(server)
        bare = socket.socket()
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        bare.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(bare, ("127.0.0.1", server.port))
        long = GOOD | {"max_tokens": 500, "stream": True, "n": 16, "temperature": 1, "seed": 1}
        await loop.sock_sendall(bare, raw_request(json.dumps(long).encode()) * 4)  # pipelined: megabytes of events
        async with asyncio.timeout(10.0):
            while not (busy := [c for c in server.server.server_state.connections if not _is_idle(c)]):
                await asyncio.sleep(0.01)
            connection: Any = busy[0]
            while not connection.flow.write_paused:
                await asyncio.sleep(0.01)
            assert await good_answer(server) == before
            while connection in server.server.server_state.connections:
                await asyncio.sleep(0.05)
            while engine.running:
                await asyncio.sleep(0.05)
        bare.close()
        assert await good_answer(server) == before


def _is_idle(connection: Any) -> bool:
    return connection.cycle is None or connection.cycle.response_complete


@pytest.mark.slow
async def test_two_thousand_requests_leave_nothing_behind() -> None:
    """Answered, streamed, refused and abandoned requests: neither memory nor descriptors grow."""
    engine = ScriptedEngine()
    process = psutil.Process(os.getpid())
    async with running_server(engine) as server:

        async def one(number: int) -> None:
            body = GOOD | {"stream": number % 2 == 0, "max_tokens": 20}
            match number % 4:
                case 0 | 1:
                    await server.client.post("/v1/completions", json=body)
                case 2:
                    await server.client.post("/v1/completions", json=body | {"prompt": "x" * 5000})
                case _:
                    _, writer = await server.connect()
                    writer.write(raw_request(json.dumps(body).encode()))
                    await writer.drain()
                    writer.close()
                    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                        await writer.wait_closed()

        async def many(count: int) -> tuple[int, int]:
            for start in range(0, count, 20):
                await asyncio.gather(*(one(start + number) for number in range(20)))
            await asyncio.sleep(0.5)
            return process.memory_info().rss, process.num_fds()

        warm_bytes, warm_descriptors = await many(400)
        end_bytes, end_descriptors = await many(2000)
        assert end_bytes - warm_bytes < 16 * 1024 * 1024
        assert end_descriptors <= warm_descriptors + 5
        assert not engine.running

"""The whole server on a real socket in front of a scripted engine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.metrics.registry import Metrics
from eagle3.server.app import build_app
from eagle3.server.auth import ApiKeys
from eagle3.server.gateway import Gateway
from eagle3.server.http_server import HttpServer
from eagle3.server.response_cache import ResponseCache
from eagle3.server.routes import protocol_routers
from eagle3.server.target_facts import TargetFacts
from protocol_doubles import ByteChatTokenizer
from server_doubles import CONTEXT_TOKENS, VOCAB_SIZE

MODEL = "scripted"


def make_server(engine: Any, config: DeploymentConfig, keys: ApiKeys | None = None) -> tuple[Gateway, Any]:
    """Gateway and app of an engine, as `serve` puts them together."""
    metrics = Metrics(config.metrics)
    gateway = Gateway(
        engine,
        ByteChatTokenizer(),
        config.limits,
        metrics,
        TargetFacts(name=MODEL, context_tokens=CONTEXT_TOKENS, vocab_size=VOCAB_SIZE),
        cache=ResponseCache(
            entries=config.serving.response_cache_entries, most_bytes=config.serving.response_cache_bytes
        ),
        created=1,
    )
    return gateway, build_app(gateway, engine, metrics, config, keys=keys, routers=protocol_routers(gateway))


@dataclass
class RunningServer:
    """A server that answers at `url`."""

    url: str
    port: int
    gateway: Gateway
    server: HttpServer
    client: httpx.AsyncClient
    task: asyncio.Task[None]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection."""
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def running_server(
    engine: Any, *, keys_file: Path | None = None, ready: bool = True, **settings: Any
) -> AsyncIterator[RunningServer]:
    """The server, stopped in an orderly way at the end; nothing may be left in its queue."""
    keys = None if keys_file is None else ApiKeys(keys_file)
    gateway, app = make_server(engine, parse_config(settings, source="test"), keys)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port = listener.getsockname()[1]
    server = HttpServer(app, gateway, gateway.limits, on_hangup=(lambda: None) if keys is None else keys.reload)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=30.0, limits=httpx.Limits(max_connections=500)) as client:
            while not server.started or (ready and not gateway.ready):
                await asyncio.sleep(0.005)
                assert not task.done(), "the server ended before it began"
            yield RunningServer(url, port, gateway, server, client, task)
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, 15.0)
    await gateway.settle()
    gateway.admission.check_integrity()
    assert (gateway.admission.waiting, gateway.admission.running) == (0, 0)


def raw_request(
    body: bytes, *, path: str = "/v1/completions", headers: dict[str, str] | None = None, encoding: str = "ascii"
) -> bytes:
    """The bytes of a POST."""
    named = {"host": "test", "content-type": "application/json", "content-length": str(len(body))} | (headers or {})
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join(lines).encode(encoding) + b"\r\n\r\n" + body


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of the next response on a connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split()[1])
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    if b"content-length" in headers:
        return status, await reader.readexactly(int(headers[b"content-length"]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return status, body


GOOD = {"model": MODEL, "prompt": "hello", "max_tokens": 8, "temperature": 0}

"""Clients that go away, events on the wire, and other streams while a long prompt is read."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import pytest

from eagle3.server.disconnect import ClientGoneError, unless_gone
from protocol_doubles import MODEL, ScriptedGateway, protocol_app


class Client:
    """A client on the ASGI side of the app: it sends a body, reads, and can go away."""

    def __init__(self, gateway, body, path="/v1/completions"):
        self.sent = []
        self.gone = asyncio.Event()
        self.first_piece = asyncio.Event()
        self._body = json.dumps(body).encode()
        self._asked = False
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http",
            "headers": [(b"content-type", b"application/json")], "client": ("1.2.3.4", 1), "server": ("server", 80),
        }  # fmt: skip
        self.task = asyncio.ensure_future(protocol_app(gateway)(scope, self._receive, self._send))

    async def _receive(self):
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.sent.append(message)
        if message.get("body"):
            self.first_piece.set()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_before_the_first_token_cancels(stream):
    """While a request waits, streamed or not, the end of its client ends it in the engine."""
    gateway = ScriptedGateway()
    gateway.held.clear()
    client = Client(gateway, {"model": MODEL, "prompt": "x", "stream": stream})
    await gateway.begun.wait()
    assert not gateway.cancelled.is_set()
    client.gone.set()
    await asyncio.wait_for(client.task, 5)
    assert gateway.cancelled.is_set()
    assert client.sent[0]["status"] == 499


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ("/invocations", {"prompt": "x"}),
        ("/endpoints/one/invocations-response-stream", {"prompt": "x"}),
    ],
)
async def test_a_client_that_goes_in_the_middle_cancels(path, body):
    """A stream whose reader has gone is closed, and with it the answer in the engine."""
    gateway = ScriptedGateway()
    client = Client(gateway, body | {"model": MODEL, "stream": True}, path)
    await asyncio.wait_for(client.first_piece.wait(), 5)
    gateway.held.clear()
    assert not gateway.cancelled.is_set()
    client.gone.set()
    await asyncio.wait_for(client.task, 5)
    assert gateway.cancelled.is_set()


async def test_a_client_that_stays_cancels_nothing():
    """An answer that is read to its end is not cancelled."""
    gateway = ScriptedGateway()
    client = Client(gateway, {"model": MODEL, "prompt": "x", "stream": True})
    await asyncio.wait_for(client.task, 5)
    assert not gateway.cancelled.is_set()
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_a_server_that_stops_cancels():
    """When the task of a request is cancelled from outside, its answer in the engine is cancelled as well."""
    gateway = ScriptedGateway()
    gateway.held.clear()
    client = Client(gateway, {"model": MODEL, "prompt": "x"})
    await gateway.begun.wait()
    client.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client.task
    assert gateway.cancelled.is_set()


async def test_events_on_the_wire():
    """Every event is one line of JSON after `data: `, and [DONE] ends the stream; line ends of Unicode are escaped."""
    text = "a\nb\u2028c\u2029d\x85e\r"
    gateway = ScriptedGateway(text)
    transport = httpx.ASGITransport(protocol_app(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        response = await http.post("/v1/completions", json={"model": MODEL, "prompt": "x", "stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    lines = response.text.splitlines()
    assert lines[1::2] == [""] * (len(lines) // 2)
    assert all(line.startswith("data: ") for line in lines[::2])
    assert lines[-2] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2:2]]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == text
    assert all("usage" not in chunk for chunk in chunks)


async def test_a_fault_of_ours_in_a_stream_is_told_and_raised():
    """An unexpected exception after the beginning is an event without its text, and reaches the log."""
    gateway = ScriptedGateway("abc", fails=RuntimeError("prompt text"), fails_after=1)
    client = Client(gateway, {"model": MODEL, "prompt": "x", "stream": True})
    await asyncio.wait_for(client.task, 5)
    events = b"".join(message.get("body", b"") for message in client.sent)
    assert b'"internal_error"' in events
    assert b"prompt text" not in events
    assert b"[DONE]" not in events
    assert client.sent[-1]["more_body"], "the response is cut short"


async def test_long_prompts_are_read_beside_the_loop():
    """A long text is encoded in another thread, a short one at once."""
    gateway = ScriptedGateway()
    gateway.context_tokens = 100_000
    threads = []
    encode = gateway.tokenizer.encode

    def noting(text):
        threads.append(threading.current_thread() is threading.main_thread())
        return encode(text)

    gateway.tokenizer.encode = noting
    transport = httpx.ASGITransport(protocol_app(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        for size in (10, 20_000):
            response = await http.post("/v1/completions", json={"model": MODEL, "prompt": "x" * size})
            assert response.status_code == 200
    assert threads == [True, False]


async def never():
    """A client that stays."""
    await asyncio.Event().wait()


async def gone():
    """A client that has gone."""
    return {"type": "http.disconnect"}


async def test_work_of_a_client_that_stays():
    """The result of the work, or what it raised, comes out."""

    async def fails():
        raise ValueError("mine")

    assert await unless_gone(never, asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ValueError, match="mine"):
        await unless_gone(never, fails())


async def test_work_of_a_client_that_has_gone():
    """The work is cancelled and has run its way out before the error comes."""
    left = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            left.append("done")

    with pytest.raises(ClientGoneError):
        await unless_gone(gone, work())
    assert left == ["done"]

"""The server on a real socket: health, errors in one shape, keys, compression, drain."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from server_doubles import ScriptedEngine
from serving_doubles import GOOD, raw_request, running_server


def error_of(response: Any) -> dict[str, Any]:
    """The error of an answer, which must have all four fields."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


async def stream_texts(server: Any, body: dict[str, Any]) -> list[str]:
    """Data of the events of a streamed answer."""
    async with server.client.stream("POST", "/v1/completions", json=body | {"stream": True}) as response:
        assert response.status_code == 200
        assert "content-encoding" not in response.headers
        lines = [line.removeprefix("data: ") async for line in response.aiter_lines() if line]
    return lines


async def test_health_ready_and_ping_follow_the_engine() -> None:
    """While it loads: alive, not ready, and why. Once it answers: ready. After it gave up: not ready again."""
    engine = ScriptedEngine(ready=False)
    async with running_server(engine, ready=False) as server:
        assert (await server.client.get("/health")).status_code == 200
        loading = await server.client.get("/ready")
        assert (loading.status_code, "loading" in loading.json()["reason"]) == (503, True)
        assert (await server.client.get("/ping")).status_code == 503
        engine.become_ready()
        while not server.gateway.ready:
            await asyncio.sleep(0.01)
        for path in ("/ready", "/ping", "/health"):
            assert (await server.client.get(path)).status_code == 200, path
            assert (await server.client.head("/ready")).status_code == 200
        engine.give_up("out of memory")
        gone = await server.client.get("/ready")
        assert (gone.status_code, "out of memory" in gone.json()["reason"]) == (503, True)
        assert (await server.client.get("/health")).status_code == 200
        refused = await server.client.post("/v1/completions", json=GOOD)
        assert (refused.status_code, error_of(refused)["code"]) == (503, "engine_unavailable")
        assert int(refused.headers["retry-after"]) >= 1


async def test_a_good_request_is_answered_plainly_and_as_a_stream() -> None:
    """The streamed text adds up to the plain one."""
    async with running_server(ScriptedEngine()) as server:
        plain = await server.client.post("/v1/completions", json=GOOD)
        assert plain.status_code == 200
        *chunks, done = await stream_texts(server, GOOD)
        assert done == "[DONE]"
        streamed = "".join(choice["text"] for chunk in chunks for choice in json.loads(chunk)["choices"])
        assert streamed == plain.json()["choices"][0]["text"]
        assert len(streamed) == 8


async def test_streams_are_not_held_back_by_compression() -> None:
    """With Accept-Encoding: gzip the first event arrives while the engine still works."""
    engine = ScriptedEngine(step_s=0.01)
    async with running_server(engine) as server:
        body = GOOD | {"stream": True, "max_tokens": 200}
        async with server.client.stream(
            "POST", "/v1/completions", json=body, headers={"accept-encoding": "gzip"}
        ) as response:
            assert "content-encoding" not in response.headers
            await anext(response.aiter_lines())
            assert engine.running


async def test_long_answers_are_compressed_for_those_who_ask() -> None:
    """gzip with Accept-Encoding: gzip, plain without."""
    async with running_server(ScriptedEngine()) as server:
        asked = await server.client.get("/openapi.json", headers={"accept-encoding": "gzip"})
        assert asked.headers["content-encoding"] == "gzip"
        plain = await server.client.get("/openapi.json", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert asked.json() == plain.json()


async def test_gzip_bodies_are_accepted_and_bombs_refused() -> None:
    """A compressed body is answered like the plain one; one that unpacks beyond the limit gets 413."""
    async with running_server(ScriptedEngine(), limits={"max_body_bytes": 100_000}) as server:
        packed = gzip.compress(json.dumps(GOOD).encode())
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        accepted = await server.client.post("/v1/completions", content=packed, headers=headers)
        plain = await server.client.post("/v1/completions", json=GOOD)
        assert accepted.json()["choices"] == plain.json()["choices"]
        bomb = await server.client.post("/v1/completions", content=gzip.compress(b"0" * 10_000_000), headers=headers)
        assert (bomb.status_code, error_of(bomb)["code"]) == (413, "payload_too_large")
        broken = await server.client.post("/v1/completions", content=packed[:-9], headers=headers)
        assert broken.status_code == 400
        other = await server.client.post("/v1/completions", content=b"x", headers=headers | {"content-encoding": "br"})
        assert (other.status_code, error_of(other)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("chunked", [False, True], ids=["by its length", "while it comes"])
async def test_bodies_beyond_the_limit_get_413(chunked: bool) -> None:
    """One byte too many is refused, by Content-Length or while chunks come; the connection stays usable."""
    async with running_server(ScriptedEngine(), limits={"max_body_bytes": 2048}) as server:

        async def chunks(body: bytes) -> Any:
            for start in range(0, len(body), 100):
                yield body[start : start + 100]

        def sent(size: int) -> Any:
            body = json.dumps(GOOD).encode().ljust(size)
            return chunks(body) if chunked else body

        headers = {"content-type": "application/json"}
        fits = await server.client.post("/v1/completions", content=sent(2048), headers=headers)
        assert fits.status_code == 200
        too_large = await server.client.post("/v1/completions", content=sent(2049), headers=headers)
        assert (too_large.status_code, error_of(too_large)["code"]) == (413, "payload_too_large")
        assert "2048" in error_of(too_large)["message"]
        assert (await server.client.post("/v1/completions", json=GOOD)).status_code == 200


async def test_unknown_paths_and_methods_have_the_errors_shape() -> None:
    """404 and 405 look like every other error; debug pages are absent; the OpenAPI document is there."""
    async with running_server(ScriptedEngine()) as server:
        for path in ("/docs", "/redoc", "/debug", "/v1/completions/", "/v1/nothing", "/.env"):
            missing = await server.client.get(path)
            assert (missing.status_code, error_of(missing)["code"]) == (404, "not_found"), path
        wrong = await server.client.get("/v1/completions")
        assert (wrong.status_code, error_of(wrong)["code"]) == (405, "method_not_allowed")
        assert "POST" in wrong.headers["allow"]
        assert (await server.client.options("/v1/completions")).status_code == 405
        assert (await server.client.get("/openapi.json")).json()["info"]["title"] == "eagle3"


async def test_api_keys(tmp_path: Path) -> None:
    """Known keys get in, others get 401; probes and metrics stay open; SIGHUP reads the file again."""
    keys = tmp_path / "keys"
    keys.write_text("# owners\n\nalice:secret-key-1\nbob: secret-key-2\n", encoding="utf-8")
    async with running_server(ScriptedEngine(), keys_file=keys) as server:

        async def status(key: str | bytes | None) -> int:
            headers: Any = {} if key is None else {"authorization": key}
            answer = await server.client.post("/v1/completions", json=GOOD, headers=headers)
            if answer.status_code == 401:
                assert error_of(answer)["code"] == "invalid_api_key"
                assert answer.headers["www-authenticate"] == "Bearer"
            return answer.status_code

        for key in ("Bearer secret-key-1", "bearer  secret-key-2"):
            assert await status(key) == 200
        for wrong in (
            None,
            "Bearer",
            "Bearer secret-key-3",
            "Basic secret-key-1",
            "secret-key-1",
            "Bearer sécret".encode("latin-1"),
        ):
            assert await status(wrong) == 401, wrong
        for path in ("/health", "/ready", "/ping", "/metrics"):
            assert (await server.client.get(path)).status_code == 200, path
        for path in ("/v1/models", "/openapi.json", "/nothing"):
            assert (await server.client.get(path)).status_code == 401, path
        body = (await server.client.get("/metrics")).text
        assert 'eagle3_requests_rejected_total{reason="unauthorized"}' in body
        keys.write_text("carol:secret-key-4\n", encoding="utf-8")
        signal.raise_signal(signal.SIGHUP)
        await asyncio.sleep(0.05)
        assert await status("Bearer secret-key-4") == 200
        assert await status("Bearer secret-key-1") == 401


async def test_a_full_queue_answers_429_with_retry_after() -> None:
    """The refused request says when to come back, is counted, and the accepted ones are answered."""
    engine = ScriptedEngine()
    async with running_server(engine, limits={"concurrency": 1, "queue": 1}) as server:
        engine.held.clear()
        accepted = [asyncio.create_task(server.client.post("/v1/completions", json=GOOD)) for _ in range(2)]
        while server.gateway.admission.waiting < 1:
            await asyncio.sleep(0.01)
        for stream in (False, True):
            refused = await server.client.post("/v1/completions", json=GOOD | {"stream": stream})
            assert (refused.status_code, error_of(refused)["code"]) == (429, "queue_full")
            assert 1 <= int(refused.headers["retry-after"]) <= 60
        body = (await server.client.get("/metrics")).text
        assert "eagle3_queue_depth 1.0" in body
        assert 'eagle3_requests_rejected_total{reason="queue_full"} 2.0' in body
        engine.held.set()
        assert [answer.status_code for answer in await asyncio.gather(*accepted)] == [200, 200]


async def test_a_deadline_is_504_before_and_an_event_within_a_stream() -> None:
    """The same fault, told in the way that is left."""
    engine = ScriptedEngine(step_s=0.02)
    async with running_server(engine, limits={"timeout_s": 0.3}) as server:
        late = await server.client.post("/v1/completions", json=GOOD | {"max_tokens": 400})
        assert (late.status_code, error_of(late)["code"]) == (504, "deadline_exceeded")
        lines = await stream_texts(server, GOOD | {"max_tokens": 400})
        assert json.loads(lines[-1])["error"]["code"] == "deadline_exceeded"
        assert len(lines) > 2


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_cancels_in_the_engine(stream: bool) -> None:
    """The engine stops working for it, whether it was being streamed to or waiting for the whole."""
    engine = ScriptedEngine(step_s=0.01)
    async with running_server(engine) as server:
        reader, writer = await server.connect()
        writer.write(raw_request(json.dumps(GOOD | {"max_tokens": 400, "stream": stream}).encode()))
        if stream:
            await reader.readuntil(b"data: ")
        while not any(not name.startswith("probe") for name in engine.running):
            await asyncio.sleep(0.005)
        writer.close()
        async with asyncio.timeout(2.0):
            while not engine.cancelled:
                await asyncio.sleep(0.01)
        assert not engine.running


async def test_faults_of_our_own_are_500_without_details(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the answer nor the log quotes what the exception says, which may be a prompt."""
    engine: Any = ScriptedEngine()
    secret = " ".join(["prompt", "of", "a", "client"])  # the log quotes lines of source
    async with running_server(engine) as server:

        async def broken(_request: Any) -> Any:
            raise KeyError(secret)
            yield

        probed, engine.generate = engine.generate, broken
        answer = await server.client.post("/v1/completions", json=GOOD)
        assert (answer.status_code, error_of(answer)["code"]) == (500, "internal_error")
        assert secret not in answer.text + caplog.text
        assert "unexpected KeyError" in caplog.text
        engine.generate = probed
        assert (await server.client.post("/v1/completions", json=GOOD)).status_code == 200


async def test_drain() -> None:
    """After the first SIGTERM: the running stream finishes, the rest gets 503, and the server ends by itself."""
    engine = ScriptedEngine(step_s=0.02)
    async with running_server(engine, limits={"drain_s": 10}) as server:
        running = asyncio.create_task(stream_texts(server, GOOD | {"max_tokens": 30}))
        while not any(not name.startswith("probe") for name in engine.running):
            await asyncio.sleep(0.005)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        refused = await server.client.post("/v1/completions", json=GOOD)
        assert (refused.status_code, error_of(refused)["code"]) == (503, "draining")
        assert (await server.client.get("/ready")).status_code == 503
        assert (await server.client.get("/ping")).status_code == 503
        assert (await server.client.get("/health")).status_code == 200
        assert 'reason="draining"} 1.0' in (await server.client.get("/metrics")).text
        assert (await running)[-1] == "[DONE]"
        await asyncio.wait_for(asyncio.shield(server.task), 5.0)
    assert engine.stops == 1
    assert server.server.stopped_by is None


async def test_a_drain_that_takes_too_long_ends_streams_with_an_error_event() -> None:
    """The stream ends with an error, never with silence, and the server ends."""
    engine = ScriptedEngine(step_s=0.02)
    async with running_server(engine, limits={"drain_s": 0.2}) as server:
        running = asyncio.create_task(stream_texts(server, GOOD | {"max_tokens": 400}))
        while not any(not name.startswith("probe") for name in engine.running):
            await asyncio.sleep(0.005)
        signal.raise_signal(signal.SIGTERM)
        assert json.loads((await running)[-1])["error"]["code"] == "draining"
        await asyncio.wait_for(asyncio.shield(server.task), 5.0)


async def test_a_second_signal_ends_at_once() -> None:
    """No waiting for the drain; the exit tells which signal it was."""
    engine = ScriptedEngine(step_s=0.02)
    async with running_server(engine, limits={"drain_s": 60}) as server:
        running = asyncio.create_task(stream_texts(server, GOOD | {"max_tokens": 400}))
        while not any(not name.startswith("probe") for name in engine.running):
            await asyncio.sleep(0.005)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        signal.raise_signal(signal.SIGINT)
        await asyncio.wait_for(asyncio.shield(server.task), 2.0)
        await asyncio.wait([running])
    assert server.server.stopped_by == signal.SIGINT

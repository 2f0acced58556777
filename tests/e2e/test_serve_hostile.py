"""Ten thousand hostile bodies: every one is answered with 2xx or 4xx, and the server is as good as before."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from hostile_bodies import hostile_requests, misframed_requests
from server_doubles import ScriptedEngine
from serving_doubles import GOOD, RunningServer, read_response, running_server

FUZZED = 9000
MISFRAMED = 200
FROM_SCHEMA = 800
LIMITS = {"max_output_tokens": 64, "max_prompt_tokens": 256, "idle_connection_s": 2.0}


async def good_answer(server: RunningServer) -> str:
    """The text of the good request, which must be answered."""
    answer = await server.client.post("/v1/completions", json=GOOD)
    assert answer.status_code == 200
    text: str = answer.json()["choices"][0]["text"]
    return text


async def check_unharmed(server: RunningServer, engine: ScriptedEngine, before: str) -> None:
    """The good request is answered as before, nothing is left in the engine, nothing was a fault of our own."""
    assert await good_answer(server) == before
    await server.gateway.settle()
    assert not engine.running
    assert server.gateway.ready


def wrong_status(status: int) -> bool:
    """Whether it is neither an answer nor the client's fault."""
    return not (200 <= status < 300 or 400 <= status < 500)


@pytest.mark.slow
async def test_fuzzed_bodies() -> None:
    """Nine thousand mutated bodies over kept-alive connections, at most five seconds each."""
    engine = ScriptedEngine()
    async with running_server(engine, limits=LIMITS) as server:
        before = await good_answer(server)
        requests = hostile_requests(FUZZED, seed=20)
        seen: Counter[int] = Counter()

        async def worker() -> None:
            reader, writer = await server.connect()
            for request in requests:
                writer.write(request)
                async with asyncio.timeout(5.0):
                    status, body = await read_response(reader)
                assert not wrong_status(status), (status, request[-2000:], body[:500])
                seen[status] += 1
            writer.close()

        await asyncio.gather(*(worker() for _ in range(8)))
        assert sum(seen.values()) == FUZZED
        assert seen[200] > 100, "some are harmless"
        assert seen[400] > 3000
        assert seen[415] > 10
        await check_unharmed(server, engine, before)


@pytest.mark.slow
async def test_misframed_bodies() -> None:
    """Lengths that contradict what is sent: a 4xx, soon, and the connection ends or goes on in step."""
    engine = ScriptedEngine()
    async with running_server(engine, limits=LIMITS | {"idle_connection_s": 0.3}) as server:
        before = await good_answer(server)
        requests: Iterator[bytes] = misframed_requests(MISFRAMED, seed=5)
        for batch in iter(lambda: list(itertools.islice(requests, 20)), []):

            async def one(request: bytes) -> None:
                reader, writer = await server.connect()
                writer.write(request)
                async with asyncio.timeout(5.0):
                    status, _ = await read_response(reader)
                assert not wrong_status(status), (status, request[:500])
                writer.close()

            await asyncio.gather(*(one(request) for request in batch))
        await check_unharmed(server, engine, before)


@pytest.mark.slow
async def test_bodies_from_our_own_schema() -> None:
    """What schemathesis makes of the OpenAPI document: valid and invalid bodies and headers for every route."""
    engine = ScriptedEngine()
    async with running_server(engine, limits=LIMITS) as server:
        before = await good_answer(server)
        document = (await server.client.get("/openapi.json")).json()
        schema = schemathesis.openapi.from_dict(document)
        strategy = schema.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE) | schema.as_strategy()
        seen: Counter[int] = Counter()

        @settings(
            max_examples=FROM_SCHEMA,
            database=None,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def send(case: schemathesis.Case) -> None:
            response = case.call(base_url=server.url, timeout=10)
            assert not wrong_status(response.status_code), (response.status_code, case.body, response.text)
            seen[response.status_code] += 1

        await asyncio.to_thread(send)
        assert sum(seen.values()) >= FROM_SCHEMA
        assert seen[200]
        assert seen[400]
        await check_unharmed(server, engine, before)

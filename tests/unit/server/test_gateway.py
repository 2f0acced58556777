from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from eagle3.engine.interface import EngineState
from eagle3.errors import DeadlineError, EngineUnavailableError, InvalidInputError, NumericalError, OverloadedError
from eagle3.server.errors import DrainingError
from server_doubles import ScriptedEngine
from unit.server.gateway_doubles import collect, request, running_gateway, until


def sample(gateway: Any, name: str) -> str:
    """The lines of one Prometheus metric."""
    body, _ = gateway._metrics.prometheus()
    return "\n".join(line for line in body.decode().splitlines() if line.startswith(name))


async def test_answers_of_one_client_come_interleaved_and_whole() -> None:
    """Every position gets its whole answer, and an answer ends with one delta that carries it."""
    async with running_gateway(ScriptedEngine()) as gateway:
        seen: list[tuple[int, Any]] = []
        async for position, delta in gateway.generate([request("a"), request("b", prompt="yo")], tenant="t"):
            seen.append((position, delta))
        for position in (0, 1):
            mine = [delta for at, delta in seen if at == position]
            assert [delta.answer is not None for delta in mine].count(True) == 1
            assert "".join(delta.text for delta in mine) == mine[-1].answer.text
            assert len(mine[-1].answer.text) == 4


async def test_no_more_than_the_limit_is_in_the_engine() -> None:
    """Twelve requests through a limit of three: never more than three in the engine, all answered."""
    engine = ScriptedEngine(step_s=0.001)
    async with running_gateway(engine, concurrency=3) as gateway:
        await asyncio.gather(*(collect(gateway, request(f"r{number}")) for number in range(12)))
    assert engine.most_running == 3
    assert len(engine.finished) == 13  # the probe's too


async def test_a_full_queue_refuses_before_the_first_delta() -> None:
    """With one place and one seat, the third request is refused with a time to come back, and the two are served."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1, queue=1) as gateway:
        engine.held.clear()
        first, second = (asyncio.create_task(collect(gateway, request(name))) for name in ("a", "b"))
        await until(lambda: gateway.admission.waiting == 1)
        with pytest.raises(OverloadedError, match="try again in") as refusal:
            await collect(gateway, request("c"))
        assert 1 <= refusal.value.retry_after_s <= 60
        engine.held.set()
        assert [len(text) for text in [*await first, *await second]] == [4, 4]


async def test_a_group_is_admitted_or_refused_as_one() -> None:
    """Three answers do not fit into two seats: none of them reaches the engine. Two do."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1, queue=2) as gateway:
        engine.held.clear()
        first = asyncio.create_task(collect(gateway, request("a")))
        await until(lambda: gateway.admission.running == 1)
        with pytest.raises(OverloadedError):
            await collect(gateway, *(request(f"n{number}") for number in range(3)))
        assert gateway.admission.waiting == 0
        pair = asyncio.create_task(collect(gateway, request("b"), request("c")))
        await until(lambda: gateway.admission.waiting == 2)
        engine.held.set()
        await asyncio.gather(first, pair)


async def test_a_group_that_can_never_fit_is_the_clients_fault() -> None:
    """More answers than places and seats together is no matter of waiting."""
    async with running_gateway(ScriptedEngine(), concurrency=1, queue=1) as gateway:
        with pytest.raises(InvalidInputError, match="at most 2"):
            await collect(gateway, *(request(f"n{number}") for number in range(3)))


@pytest.mark.parametrize("taken", [0, 1], ids=["before the first delta", "after one"])
async def test_closing_the_iterator_cancels_in_the_engine(taken: int) -> None:
    """A client that goes away frees its place, and the engine hears of it."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1) as gateway:
        if not taken:
            engine.held.clear()
        stream: Any = gateway.generate([request("gone", tokens=1000)], tenant="t")
        async with aclosing(stream):
            step = asyncio.ensure_future(anext(stream))
            await until(lambda: "gone" in engine.running or step.done())
            if taken:
                await step
            else:
                step.cancel()
                await asyncio.wait([step])
        await gateway.settle()
        engine.held.set()
        assert engine.cancelled == ["gone"]
        assert await collect(gateway, request("next"))
        assert 'outcome="cancelled"' in sample(gateway, "eagle3_requests_total")


async def test_a_waiting_request_can_be_cancelled() -> None:
    """It leaves the queue and never reaches the engine."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1) as gateway:
        engine.held.clear()
        first = asyncio.create_task(collect(gateway, request("a")))
        await until(lambda: gateway.admission.running == 1)
        second = asyncio.create_task(collect(gateway, request("b")))
        await until(lambda: gateway.admission.waiting == 1)
        second.cancel()
        await asyncio.wait([second])
        await until(lambda: gateway.admission.waiting == 0)
        engine.held.set()
        await first
    assert "b" not in engine.started


async def test_the_deadline_counts_from_arrival_in_the_queue_and_in_the_engine() -> None:
    """Both the running and the waiting request end in DeadlineError, and the engine is told of the running one."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1) as gateway:
        engine.held.clear()
        both = [
            asyncio.create_task(collect(gateway, request("a"), timeout_s=0.05)),
            asyncio.create_task(collect(gateway, request("b"), timeout_s=0.05)),
        ]
        await asyncio.wait(both)
        assert all(isinstance(task.exception(), DeadlineError) for task in both)
        await gateway.settle()
        assert engine.cancelled == ["a"]
        engine.held.set()


async def test_the_deadline_holds_for_a_reader_that_does_not_read() -> None:
    """The engine is freed although the iterator is never asked again; what was made comes before the error."""
    engine = ScriptedEngine(step_s=0.002)
    async with running_gateway(engine) as gateway:
        stream: Any = gateway.generate([request("slow", tokens=10_000)], tenant="t", timeout_s=0.1)
        await anext(stream)
        await until(lambda: engine.cancelled == ["slow"])
        _, rest = await anext(stream)
        assert len(rest.text) > 1
        with pytest.raises(DeadlineError):
            await anext(stream)


async def test_a_slow_reader_gets_merged_deltas_and_loses_nothing() -> None:
    """What came while nobody read is one delta; text and tokens are complete."""
    engine = ScriptedEngine()
    async with running_gateway(engine) as gateway:
        stream: Any = gateway.generate([request("s", tokens=50)], tenant="t")
        _, first = await anext(stream)
        await until(lambda: "s" in engine.finished)
        _, rest = await anext(stream)
        assert first.text + rest.text == rest.answer.text
        assert len(rest.token_ids) == 50 - len(first.token_ids)
        assert [item async for item in stream] == []


async def test_an_error_of_one_request_ends_the_group_and_only_it() -> None:
    """The engine's error reaches the reader as it is; the sibling is cancelled, others go on."""
    engine = ScriptedEngine()
    async with running_gateway(engine) as gateway:
        engine.fails["bad"] = NumericalError("NaN")
        other = asyncio.create_task(collect(gateway, request("other", tokens=300)))
        with pytest.raises(NumericalError):
            await collect(gateway, request("bad"), request("sibling", tokens=100_000))
        assert len((await other)[0]) == 300
        await gateway.settle()
        assert "sibling" not in engine.running


async def test_requests_wait_while_the_engine_loads() -> None:
    """At the first start nothing reaches the engine before it has answered its probe, and the queue shows it."""
    engine = ScriptedEngine(ready=False)
    async with running_gateway(engine, wait=False) as gateway:
        task = asyncio.create_task(collect(gateway, request("early")))
        await until(lambda: gateway.admission.waiting == 1)
        assert "eagle3_queue_depth 1.0" in sample(gateway, "eagle3_queue_depth")
        assert "loading" in gateway.not_ready_reason
        engine.become_ready()
        assert len((await task)[0]) == 4
        assert engine.started[0].startswith("probe")
        assert gateway.ready
        assert gateway.not_ready_reason == ""


async def test_a_crash_fails_what_runs_and_keeps_what_waits() -> None:
    """In flight: EngineUnavailableError. Waiting: served after the restart, and ready is false in between."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1) as gateway:
        engine.held.clear()
        running = asyncio.create_task(collect(gateway, request("a")))
        await until(lambda: gateway.admission.running == 1)
        waiting = asyncio.create_task(collect(gateway, request("b")))
        await until(lambda: gateway.admission.waiting == 1)
        engine.crash("killed by signal 9")
        engine.held.set()
        with pytest.raises(EngineUnavailableError):
            await running
        assert not gateway.ready
        assert "killed by signal 9" in gateway.not_ready_reason
        assert gateway.admission.waiting == 1
        engine.become_ready()
        assert len((await waiting)[0]) == 4


async def test_an_engine_that_gave_up_refuses_at_once() -> None:
    """FAILED ends the wait of who waits and refuses who comes."""
    engine = ScriptedEngine(ready=False)
    async with running_gateway(engine, wait=False) as gateway:
        waiting = asyncio.create_task(collect(gateway, request("a")))
        await until(lambda: gateway.admission.waiting == 1)
        engine.give_up()
        with pytest.raises(EngineUnavailableError, match="failed"):
            await waiting
        with pytest.raises(EngineUnavailableError, match="failed"):
            await collect(gateway, request("b"))
        assert "crashed too often" in gateway.not_ready_reason
        assert engine.state is EngineState.FAILED


async def test_an_engine_that_ends_without_an_answer_is_an_error() -> None:
    """Silence is never an answer."""
    engine: Any = ScriptedEngine(length=None)
    async with running_gateway(engine) as gateway:

        async def nothing(_request: Any) -> Any:
            return
            yield

        engine.generate = nothing
        with pytest.raises(EngineUnavailableError, match="without finishing"):
            await collect(gateway, request("a"))


async def test_draining_finishes_what_runs_and_refuses_the_rest() -> None:
    """The running answer is whole, the waiting and the new request get DrainingError."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1) as gateway:
        engine.held.clear()
        running = asyncio.create_task(collect(gateway, request("a")))
        await until(lambda: gateway.admission.running == 1)
        waiting = asyncio.create_task(collect(gateway, request("b")))
        await until(lambda: gateway.admission.waiting == 1)
        drained = asyncio.create_task(gateway.drain(5.0))
        with pytest.raises(DrainingError):
            await waiting
        with pytest.raises(DrainingError):
            await collect(gateway, request("c"))
        assert not gateway.ready
        assert not drained.done()
        engine.held.set()
        assert len((await running)[0]) == 4
        await asyncio.wait_for(drained, 1.0)


async def test_a_drain_that_takes_too_long_ends_streams_with_an_error() -> None:
    """The reader gets what was made, then DrainingError; the engine is told."""
    engine = ScriptedEngine(step_s=0.001)
    async with running_gateway(engine) as gateway:
        running = asyncio.create_task(collect(gateway, request("a", tokens=100_000)))
        await until(lambda: "a" in engine.running)
        await gateway.drain(0.02)
        with pytest.raises(DrainingError, match="drain_s"):
            await running
        await gateway.settle()
    assert engine.cancelled == ["a"]


async def test_the_cache_answers_identical_deterministic_requests() -> None:
    """The second identical request does not reach the engine, and the metrics count a miss and a hit."""
    engine = ScriptedEngine()
    async with running_gateway(engine, cache_entries=8) as gateway:
        first = await collect(gateway, request("a"))
        second = await collect(gateway, request("b"))
        assert first == second
        assert "b" not in engine.started
        assert await collect(gateway, request("c", temperature=1.0)) != []
        assert "c" in engine.started
        counted = sample(gateway, "eagle3_response_cache_total")
        assert 'result="hit"} 1.0' in counted
        assert 'result="miss"} 1.0' in counted


async def test_cancelled_answers_are_not_cached() -> None:
    """A reader that went away leaves nothing in the cache."""
    engine = ScriptedEngine(step_s=0.001)
    async with running_gateway(engine, cache_entries=8) as gateway:
        stream: Any = gateway.generate([request("a", tokens=500)], tenant="t")
        await anext(stream)
        await stream.aclose()
        await gateway.settle()
        assert len((await collect(gateway, request("b", tokens=500)))[0]) == 500
        assert "b" in engine.started


async def test_tenants_take_turns() -> None:
    """A tenant's single request does not wait behind the whole flood of another."""
    engine = ScriptedEngine()
    async with running_gateway(engine, concurrency=1) as gateway:
        engine.held.clear()
        flood = [asyncio.create_task(collect(gateway, request(f"f{number}"), tenant="flood")) for number in range(6)]
        await until(lambda: gateway.admission.waiting == 5)
        single = asyncio.create_task(collect(gateway, request("single"), tenant="other"))
        await until(lambda: gateway.admission.waiting == 6)
        engine.held.set()
        await asyncio.gather(*flood, single)
    assert engine.started.index("single") <= 3  # the probe, the one that ran, one of the flood at most

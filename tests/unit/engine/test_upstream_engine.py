"""Another program behind the interface of all engines; the program is scripted, its process and sockets are real."""

import asyncio
import os
import signal
from contextlib import aclosing

import psutil
import pytest

from eagle3.engine.interface import EngineState
from eagle3.engine.sglang import SglangDialect
from eagle3.engine.upstream_engine import UpstreamEngine
from eagle3.engine.vllm import VllmDialect
from eagle3.errors import EngineUnavailableError, InvalidInputError
from unit.engine.upstream_doubles import (
    ABORTS,
    ANSWERS,
    BREAKS_OFF,
    CRASHES,
    FAILS,
    FAKE_SERVER,
    FOREVER,
    MODELS,
    REFUSED,
    collect,
    fake_config,
    request_of,
    running,
)


def children() -> list[psutil.Process]:
    """Scripted programs of this process that are alive."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE and str(FAKE_SERVER) in child.cmdline()
    ]


async def until(condition, what: str) -> None:
    """Wait for something that takes a moment."""
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"waited in vain until {what}")


async def test_an_answer_comes_in_deltas_and_ends_with_the_whole():
    """Deltas put together are the answer; the last one carries it, with the cycles that the program told."""
    async with running() as engine:
        *deltas, last = await collect(engine, request_of(ANSWERS))
        assert [delta.text for delta in deltas] == ["zero", " one", " two", " three"]
        assert [delta.token_ids for delta in deltas] == [(20,), (21,), (22,), (23,)]
        assert last.answer is not None
        assert last.answer.text == "zero one two three"
        assert last.answer.token_ids == (20, 21, 22, 23)
        assert last.answer.finish_reason == "stop"
        assert last.answer.logprobs is None
        assert last.answer.stats.cycles == 2
        assert last.answer.stats.cycle_tokens == 3
        assert last.answer.stats.accepted_at_depth == [1, 0, 0]
        assert last.answer.stats.total_s >= last.answer.stats.prefill_s > 0


async def test_info_tells_version_and_what_is_not_honoured():
    """The engine's version comes from the program, the notes from the arguments."""
    async with running() as engine:
        assert engine.info is not None
        assert engine.info.engine == "vllm 9.9"
        assert engine.info.context_tokens == 64
        assert any("chains, not trees" in note for note in engine.info.notes)


async def test_logprobs_are_those_of_the_chosen_token_and_its_rivals():
    """As many alternatives as asked for, best first, though the program sends one more."""
    async with running() as engine:
        *deltas, last = await collect(engine, request_of(ANSWERS, logprobs=2))
        assert last.answer is not None
        assert last.answer.logprobs is not None
        assert last.answer.logprobs[1].token_id == 21
        assert last.answer.logprobs[1].top == ((21, -0.5), (99, -1.5))
        assert deltas[0].logprobs == last.answer.logprobs[:1]


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        (REFUSED, InvalidInputError, "no such thing"),
        (FAILS, InvalidInputError, "grammar is wrong"),
        (BREAKS_OFF, EngineUnavailableError, "broke off"),
        (ABORTS, EngineUnavailableError, "abort"),
    ],
)
async def test_what_goes_wrong_is_raised_and_the_engine_goes_on(kind, error, said):
    """A refusal is the request's fault, an answer that stops in the middle the engine's; the next answer is whole."""
    async with running() as engine:
        with pytest.raises(error, match=said):
            await collect(engine, request_of(kind))
        assert engine.state is EngineState.READY
        assert (await collect(engine, request_of(ANSWERS)))[-1].answer is not None


async def test_a_crash_fails_every_request_in_flight_and_is_followed_by_a_restart():
    """Kill -9 of the program under load: each request gets an error with the reason, then it is READY again."""
    async with running() as engine:
        requests = [asyncio.ensure_future(collect(engine, request_of(FOREVER))) for _ in range(4)]
        await asyncio.sleep(0.2)
        program = next(child for child in children() if "leash.py" not in " ".join(child.cmdline()))
        os.kill(program.pid, signal.SIGKILL)
        results = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 5)
        assert all(isinstance(result, EngineUnavailableError) for result in results)
        await until(lambda: engine.state is EngineState.LOADING, "the crash is noticed")
        assert "137 (killed)" in (engine.reason or "")
        with pytest.raises(EngineUnavailableError, match="137"):
            await collect(engine, request_of(ANSWERS))
        await engine.wait_ready()
        assert (await collect(engine, request_of(ANSWERS)))[-1].answer is not None
        assert (await engine.snapshot()).restarts == 1


async def test_a_request_that_crashes_the_program_gets_an_error():
    """Its stream ends with EngineUnavailableError, not with half an answer."""
    async with running() as engine:
        with pytest.raises(EngineUnavailableError):
            await collect(engine, request_of(CRASHES))


async def test_counters_go_on_over_a_restart():
    """What the first run counted is added to the second's; gauges are the second's alone."""
    async with running() as engine:
        await collect(engine, request_of(ANSWERS))
        before = (await engine.snapshot()).stats.output_tokens
        assert before == 8  # the probe of the start counts as well: that is work, too
        with pytest.raises(EngineUnavailableError):
            await collect(engine, request_of(CRASHES))
        await until(lambda: engine.state is EngineState.LOADING, "the crash is noticed")
        assert (await engine.snapshot()).stats.output_tokens == before
        await engine.wait_ready()
        assert (await engine.snapshot()).stats.output_tokens == before + 4


async def test_closing_the_iterator_ends_the_request():
    """The program sees the connection go, so it stops working on the answer."""
    async with running() as engine:
        async with aclosing(engine.generate(request_of(FOREVER))) as deltas:
            assert (await anext(deltas)).text == "zero"
            assert (await engine.snapshot()).running == 1
        for _ in range(100):
            if (await engine.snapshot()).running == 0:
                break
            await asyncio.sleep(0.02)
        assert (await engine.snapshot()).running == 0


async def test_stop_ends_requests_and_leaves_no_process():
    """Requests in flight get an error, the program and its leash are gone, a second stop is harmless."""
    async with running() as engine:
        request = asyncio.ensure_future(collect(engine, request_of(FOREVER)))
        await asyncio.sleep(0.1)
        await engine.stop()
        with pytest.raises(EngineUnavailableError):
            await request
        assert engine.state is EngineState.STOPPED
        assert children() == []
        await engine.stop()
        with pytest.raises(EngineUnavailableError, match="stopped"):
            await collect(engine, request_of(ANSWERS))
        assert (await engine.snapshot()).stats.output_tokens == 0


async def failed(engine: UpstreamEngine) -> str:
    """Start an engine that fails; returns the reason."""
    await engine.start()
    with pytest.raises(EngineUnavailableError):
        await engine.wait_ready()
    assert engine.state is EngineState.FAILED
    reason = engine.reason or ""
    await engine.stop()
    return reason


def engine_with(config, dialect=None) -> UpstreamEngine:
    return UpstreamEngine(config, dialect or VllmDialect(), prepare=lambda *_, **__: MODELS)


async def test_a_missing_program_fails_at_once_with_the_remedy():
    """No retries, and the reason says what to install or set."""
    reason = await failed(engine_with(fake_config(executable="no-such-program serve")))
    assert "'no-such-program' does not exist" in reason
    assert "pip install vllm" in reason
    assert "engine.executable" in reason


async def test_a_missing_module_fails_at_once():
    """SGLang is a module of some Python: that it is missing shows only in its output."""
    reason = await failed(engine_with(fake_config("--behave", "broken"), SglangDialect()))
    assert "No module named 'sglang'" in reason


async def test_an_option_that_a_release_lacks_is_left_out_at_the_next_try():
    """An older release starts without it, and the notes say so."""
    async with running(fake_config("--behave", "old")) as engine:
        assert engine.info is not None
        assert "this release has no --shutdown-timeout; it is left out" in engine.info.notes


async def test_a_start_that_fails_is_tried_again():
    """What might be cured by time is not FAILED at once; the reason shows the program's last word."""
    engine = engine_with(fake_config("--behave", "crash"))
    await engine.start()
    await until(lambda: engine.reason is not None, "the first start fails")
    assert engine.state is EngineState.LOADING
    assert "not enough memory" in (engine.reason or "")
    await engine.stop()
    assert children() == []


@pytest.mark.parametrize("prompt", [(), tuple(range(64))])
async def test_a_prompt_that_leaves_no_room_is_refused_before_it_is_sent(prompt):
    """Empty and as long as the context: both InvalidInputError."""
    async with running() as engine:
        request = request_of(ANSWERS)
        with pytest.raises(InvalidInputError, match="prompt"):
            await collect(engine, type(request)(request_id="r", prompt_ids=prompt, params=request.params))


async def test_sglang_answers_are_read_as_what_is_new():
    """SGLang repeats the whole answer in each event; deltas hold the difference."""
    async with running(dialect=SglangDialect()) as engine:
        *deltas, last = await collect(engine, request_of(ANSWERS, logprobs=1))
        assert [delta.text for delta in deltas] == ["zero", " one", " two", " three"]
        assert [delta.token_ids for delta in deltas] == [(20,), (21,), (22,), (23,)]
        assert last.answer is not None
        assert last.answer.finish_reason == "length"
        assert [entry.top for entry in last.answer.logprobs or ()] == [((20 + i, -0.5),) for i in range(4)]
        assert last.answer.stats.cycles == 2
        assert last.answer.stats.cycle_tokens == 3

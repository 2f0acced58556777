"""The native engine across its process boundary: requests, errors, crashes, ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from builders import write_byte_model
from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.engine.interface import EngineState, GenerationRequest
from eagle3.engine.llm import LLM
from eagle3.engine.native import NativeEngine
from eagle3.errors import EngineUnavailableError, InvalidInputError, WeightsError
from eagle3.sampling.params import sampling_params

pytestmark = pytest.mark.slow


def config_for(target: Path, **engine) -> DeploymentConfig:
    return parse_config(
        {"target": str(target), "draft": None, "threads": 1, "engine": {"cache_tokens": 2048, **engine}}, source="test"
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return write_byte_model(tmp_path_factory.mktemp("model") / "byte-model")


@asynccontextmanager
async def running(config: DeploymentConfig) -> AsyncIterator[NativeEngine]:
    engine = NativeEngine(config)
    await engine.start()
    try:
        await engine.wait_ready()
        yield engine
    finally:
        await engine.stop()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def engine(model):
    async with running(config_for(model)) as engine:
        yield engine


shared = pytest.mark.asyncio(loop_scope="module")


def request(name: str, prompt: bytes = b"hello", **params) -> GenerationRequest:
    params = {"max_new_tokens": 12, "ignore_eos": True, **params}
    return GenerationRequest(request_id=name, prompt_ids=tuple(prompt), params=sampling_params(**params))


async def answer(engine: NativeEngine, asked: GenerationRequest):
    deltas = [delta async for delta in engine.generate(asked)]
    assert [delta.answer is not None for delta in deltas] == [False] * (len(deltas) - 1) + [True]
    final = deltas[-1].answer
    assert "".join(delta.text for delta in deltas) == final.text
    assert sum((delta.token_ids for delta in deltas), ()) == final.token_ids
    return final


def workers() -> set[psutil.Process]:
    return {
        process
        for process in psutil.Process().children(recursive=True)
        if "eagle3.engine.worker" in process.cmdline() and "leash.py" not in " ".join(process.cmdline())
    }


@shared
async def test_many_requests_at_once_equal_the_python_api(engine, model):
    """Requests in flight together give what the Python API gives for each alone, and the counters add up."""
    llm = LLM.from_config(config_for(model))
    prompts = [bytes([65 + i]) * (1 + 5 * i) for i in range(7)]
    asked = [request(str(i), prompt, temperature=0.9, seed=i) for i, prompt in enumerate(prompts)]
    before = await engine.snapshot()
    answers = await asyncio.gather(*(answer(engine, each) for each in asked))
    for each, got in zip(asked, answers, strict=True):
        *_, last = llm.stream(each.prompt_ids, each.params)
        assert got.token_ids == last.answer.token_ids
        assert got.text == last.answer.text
    assert engine.info.target == "byte-model"
    await asyncio.sleep(0.5)
    snapshot = await engine.snapshot()
    assert snapshot.stats.output_tokens - before.stats.output_tokens == 7 * 12
    assert snapshot.prompt_tokens - before.prompt_tokens == sum(map(len, prompts))
    assert (snapshot.running, snapshot.waiting, snapshot.cache_tokens_used) == (0, 0, 0)


@shared
async def test_a_refused_request_leaves_the_others_alone(engine):
    """A prompt outside the vocabulary is that client's error; the next request is served."""
    bad = GenerationRequest(request_id="bad", prompt_ids=(10**6,), params=sampling_params())
    with pytest.raises(InvalidInputError, match="vocabulary"):
        await answer(engine, bad)
    assert len((await answer(engine, request("good"))).token_ids) == 12


@shared
async def test_closing_the_stream_frees_the_request(engine):
    """A client that goes away after the first delta leaves no work and no cache behind."""
    before = (await engine.snapshot()).stats.output_tokens
    stream = engine.generate(request("gone", max_new_tokens=1000))
    await anext(stream)
    await stream.aclose()
    for _ in range(50):
        await asyncio.sleep(0.1)
        snapshot = await engine.snapshot()
        if snapshot.running == 0 and snapshot.stats.output_tokens > before:
            break
    assert (snapshot.running, snapshot.cache_tokens_used) == (0, 0)
    assert snapshot.stats.output_tokens - before < 1000


async def test_a_killed_process_fails_its_requests_and_comes_back(model):
    """kill -9 under load: every request in flight gets an error, the engine answers again, counters go on."""
    others = workers()
    async with running(config_for(model)) as engine:
        before = await answer(engine, request("before"))
        tasks = [asyncio.create_task(answer(engine, request(f"lost{i}", max_new_tokens=1500))) for i in range(3)]
        await asyncio.sleep(0.3)
        counted = (await engine.snapshot()).stats.output_tokens
        (own,) = workers() - others
        os.kill(own.pid, signal.SIGKILL)
        for task in tasks:
            with pytest.raises(EngineUnavailableError, match="killed"):
                await task
        with pytest.raises(EngineUnavailableError, match="loading"):
            await answer(engine, request("too early"))
        await engine.wait_ready()
        assert (await answer(engine, request("after"))).token_ids == before.token_ids
        snapshot = await engine.snapshot()
        assert snapshot.restarts == 1
        assert snapshot.stats.output_tokens >= counted


async def test_weights_that_cannot_be_loaded_are_final(tmp_path):
    """A target that does not exist is not tried again and again; the reason names it."""
    engine = NativeEngine(config_for(tmp_path / "nowhere"))
    await engine.start()
    with pytest.raises(EngineUnavailableError, match="nowhere") as caught:
        await engine.wait_ready()
    assert isinstance(caught.value.__cause__, WeightsError)
    assert engine.state is EngineState.FAILED
    assert (await engine.snapshot()).restarts == 0
    await engine.stop()


async def test_stop_ends_requests_and_leaves_no_process(model):
    """Requests in flight get an error, and nothing of the engine is left."""
    others = workers()
    async with running(config_for(model)) as engine:
        task = asyncio.create_task(answer(engine, request("cut", max_new_tokens=1500)))
        await asyncio.sleep(0.3)
        (process,) = workers() - others
    with pytest.raises(EngineUnavailableError, match="stopped"):
        await task
    assert not process.is_running()

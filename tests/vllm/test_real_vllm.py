"""The real vLLM (its CPU build) as an engine, with the embedded target and the shipped draft in float32.

vLLM is a program in a virtual environment of its own (`make test-vllm` makes it); nothing of it is imported here.
One server serves all tests, in the order of the file: the last ones kill it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
import torch

from eagle3 import LLM, sampling_params
from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.config.speculation import Speculation
from eagle3.engine.answer import Answer
from eagle3.engine.interface import EngineState, GenerationRequest
from eagle3.engine.upstream_engine import UpstreamEngine
from eagle3.engine.vllm import vllm_engine
from eagle3.errors import EngineUnavailableError, InvalidInputError
from eagle3.models.attention import causal_attend
from eagle3.models.embedded import embedded_target
from eagle3.models.target_loader import load_target

EXECUTABLE = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "vllm"
CHAIN = 4
NEAR_TIE = 1e-3
"""Logits. Two float32 programs that sum in another order differ by about a tenth of that."""
QUESTIONS = (
    "Give me three tips for staying healthy.",
    "What is the capital of France?",
    "Write a short poem about the sea.",
    "Explain what a hash table is.",
    "How do I boil an egg?",
)

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(400),
    pytest.mark.skipif(not EXECUTABLE.exists(), reason="no .venv-vllm/bin/vllm; `make test-vllm` installs it"),
]


def served_config() -> DeploymentConfig:
    """Small, eager (vLLM's compiler wants minutes and a C++ compiler), with a tree that vLLM must turn to a chain."""
    return parse_config(
        {
            "speculation": {"depth": CHAIN, "top_k": 6, "nodes": 16},
            "engine": {
                "name": "vllm",
                "executable": str(EXECUTABLE),
                "arguments": ["--enforce-eager"],
                "cache_tokens": 8192,
            },
            "limits": {"concurrency": 8, "max_prompt_tokens": 256, "max_output_tokens": 256, "drain_s": 20},
        },
        source="test",
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[UpstreamEngine]:
    """The engine in front of vLLM, ready."""
    engine = vllm_engine(served_config())
    await engine.start()
    try:
        await engine.wait_ready()
        yield engine
    finally:
        await engine.stop()


@pytest.fixture(scope="module")
def llm() -> LLM:
    """Our own engine, drafting a chain of the same length."""
    return LLM.embedded(Speculation(depth=CHAIN, top_k=1, nodes=CHAIN, drafters=("eagle3",)))


def prompt_of(llm: LLM, question: str) -> tuple[int, ...]:
    return tuple(llm.tokenizer.encode_chat([{"role": "user", "content": question}]))


def request_of(prompt_ids: tuple[int, ...], name: str = "r", **params: object) -> GenerationRequest:
    return GenerationRequest(request_id=name, prompt_ids=prompt_ids, params=sampling_params(**params))


async def answer_of(engine: UpstreamEngine, request: GenerationRequest) -> Answer:
    """The last delta's answer, after a check that the deltas put together are the same."""
    deltas = [delta async for delta in engine.generate(request)]
    answer = deltas[-1].answer
    assert answer is not None
    assert "".join(delta.text for delta in deltas) == answer.text
    assert tuple(token_id for delta in deltas for token_id in delta.token_ids) == answer.token_ids
    return answer


def own_answer(llm: LLM, prompt_ids: tuple[int, ...], **params: object) -> Answer:
    *_, last = llm.stream(prompt_ids, sampling_params(**params))
    assert last.answer is not None
    return last.answer


def processes() -> list[psutil.Process]:
    """vLLM's processes, the API's first; neither the leash nor children that others gave this process (Node.js)."""
    children = psutil.Process().children(recursive=True)
    return [
        child for child in children if "vllm" in str(child.cmdline()).lower() and "leash.py" not in str(child.cmdline())
    ]


async def test_it_loads_and_says_what_it_does_not_honour(engine: UpstreamEngine) -> None:
    """The shipped draft and the exported target load; the tree of the config is named as not used."""
    assert engine.state is EngineState.READY
    assert engine.info is not None
    assert engine.info.engine == "vllm 0.32.0"
    assert engine.info.target == "SmolLM2-135M-Instruct"
    assert engine.info.context_tokens == 512
    assert any("chains, not trees" in note and f"a chain of {CHAIN}" in note for note in engine.info.notes)
    snapshot = await engine.snapshot()
    assert snapshot.cache_tokens >= 8192 * 0.9  # whole blocks
    assert snapshot.stats.cycles > 0  # the probe of the start


async def test_text_and_acceptance_equal_ours(engine: UpstreamEngine, llm: LLM) -> None:
    """At temperature 0 texts are ours up to near-ties, and a chain of the same length is accepted as often.

    Texts: where two part, the two best logits of our target on the common prefix are closer than NEAR_TIE.
    Acceptance by position: both count the same cycles, but for the last one of each answer (one engine drafts past
    the end, the other not) and for near-ties of the draft, for which 2 % of the cycles are allowed.
    """
    before = (await engine.snapshot()).stats
    prompts = [prompt_of(llm, question) for question in QUESTIONS]
    params = {"max_new_tokens": 64}
    theirs = await asyncio.gather(*(answer_of(engine, request_of(prompt, **params)) for prompt in prompts))
    after = (await engine.snapshot()).stats
    ours = [await asyncio.to_thread(own_answer, llm, prompt, **params) for prompt in prompts]

    target = load_target(embedded_target())
    compared = []
    for prompt, own, other in zip(prompts, ours, theirs, strict=True):
        if own.token_ids == other.token_ids:
            assert own.text == other.text
            assert own.finish_reason == other.finish_reason
            compared.append((own, other))
            continue
        shared = next(at for at, (a, b) in enumerate(zip(own.token_ids, other.token_ids, strict=False)) if a != b)
        ids = torch.tensor([[*prompt, *own.token_ids[:shared]]])
        with torch.inference_mode():
            output = target(ids, torch.arange(ids.shape[1])[None], causal_attend)
            best = target.logits(output.hidden_BSH[0, -1]).topk(2)
        assert set(best.indices.tolist()) == {own.token_ids[shared], other.token_ids[shared]}
        assert float(best.values[0] - best.values[1]) < NEAR_TIE
    assert len(compared) >= len(prompts) - 1, "near-ties are rare"

    allowed = len(compared) + 0.02 * sum(own.stats.cycles for own, _ in compared)
    for depth in range(CHAIN):
        own_count = sum((own.stats.accepted_at_depth + [0] * CHAIN)[depth] for own, _ in compared)
        other_count = sum((other.stats.accepted_at_depth + [0] * CHAIN)[depth] for _, other in compared)
        assert abs(own_count - other_count) <= allowed, f"position {depth + 1}: {own_count} and {other_count}"
    own_tau = sum(own.stats.cycle_tokens for own, _ in compared) / sum(own.stats.cycles for own, _ in compared)
    other_tau = sum(o.stats.cycle_tokens for _, o in compared) / sum(o.stats.cycles for _, o in compared)
    print(f"acceptance length: ours {own_tau:.3f}, vllm {other_tau:.3f}")
    assert own_tau == pytest.approx(other_tau, rel=0.05)
    assert own_tau > 1.3

    # The counters of /metrics are the sum of what the requests told.
    assert after.cycles - before.cycles == sum(other.stats.cycles for other in theirs)
    assert after.output_tokens - before.output_tokens == sum(len(other.token_ids) for other in theirs)
    for depth in range(CHAIN):
        told = sum(other.stats.accepted_at_depth[depth] for other in theirs)
        counted = after.accepted_at_depth[depth] - (before.accepted_at_depth + [0] * CHAIN)[depth]
        assert counted == told


async def test_sampling_parameters_reach_it(engine: UpstreamEngine, llm: LLM) -> None:
    """Stop strings, stop tokens, penalties, limits and logprobs give what our engine gives at temperature 0."""
    prompt = prompt_of(llm, QUESTIONS[0])
    plain = own_answer(llm, prompt, max_new_tokens=32)
    cases: list[dict[str, object]] = [
        {"max_new_tokens": 24, "repetition_penalty": 1.3},
        {"max_new_tokens": 24, "presence_penalty": 0.7, "frequency_penalty": 0.4},
        {"max_new_tokens": 32, "stop": ["\n"]},
        {"max_new_tokens": 32, "stop_token_ids": [plain.token_ids[9]]},
        {"max_new_tokens": 5, "logprobs": 3},
    ]
    for params in cases:
        own = own_answer(llm, prompt, **params)
        other = await answer_of(engine, request_of(prompt, **params))
        assert (other.text, other.finish_reason) == (own.text, own.finish_reason), params
        if own.logprobs is not None and other.logprobs is not None:
            for mine, its in zip(own.logprobs, other.logprobs, strict=True):
                assert its.token_id == mine.token_id
                assert its.logprob == pytest.approx(mine.logprob, abs=1e-2)
                assert [token_id for token_id, _ in its.top] == [token_id for token_id, _ in mine.top]


@pytest.mark.parametrize("params", [{"min_p": 0.1}, {"logit_bias": {5: 1.0}}, {"temperature": 0.7, "seed": 1}])
async def test_what_it_cannot_do_is_refused(engine: UpstreamEngine, llm: LLM, params: dict[str, object]) -> None:
    """min_p, logit_bias and (on a CPU) sampling are an error that says what to do, never dropped or done wrongly."""
    with pytest.raises(InvalidInputError, match="while vllm speculates"):
        await answer_of(engine, request_of(prompt_of(llm, QUESTIONS[0]), **params))


async def test_a_token_outside_the_vocabulary_is_refused(engine: UpstreamEngine) -> None:
    """vLLM's own refusal is the request's fault, and the engine goes on."""
    with pytest.raises(InvalidInputError, match="vocabulary"):
        await answer_of(engine, request_of((1, 99_999_999)))
    assert engine.state is EngineState.READY


async def test_json_schema(engine: UpstreamEngine, llm: LLM) -> None:
    """The answer is JSON of the schema, although the draft proposes what it likes; a wrong schema is refused."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "large": {"type": "boolean"}},
        "required": ["city", "large"],
        "additionalProperties": False,
    }
    prompt = prompt_of(llm, "Describe the capital of France as JSON.")
    answer = await answer_of(engine, request_of(prompt, json_schema=json.dumps(schema), max_new_tokens=96))
    value = json.loads(answer.text)
    assert set(value) == {"city", "large"}
    assert isinstance(value["large"], bool)


async def test_closing_an_answer_cancels_it(engine: UpstreamEngine, llm: LLM) -> None:
    """vLLM stops working on it: nothing runs soon after, long before the answer's end."""
    request = request_of(prompt_of(llm, QUESTIONS[2]), max_new_tokens=256, ignore_eos=True)
    async with aclosing(engine.generate(request)) as deltas:
        await anext(deltas)
        assert (await engine.snapshot()).running == 1
    deadline = time.monotonic() + 3
    while (await engine.snapshot()).running and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    assert (await engine.snapshot()).running == 0


async def test_kill_9_under_load(engine: UpstreamEngine, llm: LLM) -> None:
    """Requests in flight get an error, vLLM is started again, and the same question gets the same answer."""
    prompt = prompt_of(llm, QUESTIONS[1])
    before = await answer_of(engine, request_of(prompt, max_new_tokens=24))
    long = [request_of(prompt, f"k{at}", max_new_tokens=250, ignore_eos=True) for at in range(3)]
    running = [asyncio.ensure_future(answer_of(engine, request)) for request in long]
    await asyncio.sleep(1.0)
    counted = (await engine.snapshot()).stats.output_tokens
    processes()[0].send_signal(signal.SIGKILL)
    results = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 10)
    assert all(isinstance(result, EngineUnavailableError) for result in results), results
    deadline = time.monotonic() + 5
    while engine.state is EngineState.READY and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert engine.state is EngineState.LOADING
    assert "137" in (engine.reason or "")
    await engine.wait_ready()
    assert (await answer_of(engine, request_of(prompt, max_new_tokens=24))).token_ids == before.token_ids
    snapshot = await engine.snapshot()
    assert snapshot.restarts == 1
    assert snapshot.stats.output_tokens > counted


async def test_sigterm_lets_streams_end(engine: UpstreamEngine, llm: LLM) -> None:
    """vLLM itself drains for `limits.drain_s` when it is told to stop: a running answer comes to its end."""
    request = request_of(prompt_of(llm, QUESTIONS[2]), max_new_tokens=48, ignore_eos=True)
    async with aclosing(engine.generate(request)) as deltas:
        await anext(deltas)
        processes()[0].send_signal(signal.SIGTERM)
        rest = [delta async for delta in deltas]
    assert rest[-1].answer is not None
    assert len(rest[-1].answer.token_ids) == 48


async def test_stop_leaves_no_process(engine: UpstreamEngine) -> None:
    """After the stop nothing of vLLM runs any more, whichever process started it."""
    await engine.wait_ready()
    running = processes()
    assert len(running) >= 2
    await engine.stop()
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in running)
    assert engine.state is EngineState.STOPPED

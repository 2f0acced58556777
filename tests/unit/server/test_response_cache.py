from __future__ import annotations

from typing import Any

import pytest

from eagle3.engine.answer import Answer, TokenLogprobs
from eagle3.engine.interface import GenerationRequest
from eagle3.engine.stats import DecodeStats
from eagle3.sampling.params import SamplingParams
from eagle3.server.response_cache import ResponseCache


def request(prompt: str = "a", *, index: int = 0, speculate: bool = True, **params: Any) -> GenerationRequest:
    return GenerationRequest(
        request_id="x",
        prompt_ids=tuple(prompt.encode()),
        params=SamplingParams(**params),
        index=index,
        speculate=speculate,
    )


def answer(text: str = "b", logprobs: tuple[TokenLogprobs, ...] | None = None) -> Answer:
    return Answer(
        text=text, token_ids=tuple(text.encode()), finish_reason="stop", logprobs=logprobs, stats=DecodeStats()
    )


def cache(entries: int = 4, most_bytes: int = 1 << 20) -> ResponseCache:
    return ResponseCache(entries=entries, most_bytes=most_bytes)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (request(), request(speculate=False)),
        (request(seed=1), request(seed=2)),  # greedy: the seed is not looked at
        (request(), request(index=3)),
        (request(n=2), request(n=1)),
        (request(temperature=1.0, seed=4, index=1), request(temperature=1.0, seed=4, index=1)),
    ],
)
def test_accepts_what_has_the_same_answer(held: GenerationRequest, asked: GenerationRequest) -> None:
    """Requests whose text is the same by the rules of the engine share an entry."""
    kept = cache()
    kept.put(held, answer())
    assert kept.get(asked) == answer()


@pytest.mark.parametrize(
    "asked",
    [
        request("aa"),
        request(temperature=1.0, seed=4),
        request(max_new_tokens=5),
        request(stop=("x",)),
        request(logprobs=1),
        request(logit_bias={1: 2.0}),
        request(repetition_penalty=1.1),
    ],
)
def test_refuses_what_differs(asked: GenerationRequest) -> None:
    """Every parameter that can change the answer is part of the key."""
    kept = cache()
    kept.put(request(), answer())
    assert kept.get(asked) is None


def test_answers_of_one_sampled_request_are_apart() -> None:
    """With a seed at a temperature, each index has an answer of its own."""
    kept = cache()
    kept.put(request(temperature=1.0, seed=4, index=0), answer())
    assert kept.get(request(temperature=1.0, seed=4, index=1)) is None


def test_only_deterministic_requests_may_be_held_and_none_when_off() -> None:
    """Temperature 0 or a fixed seed; without entries, nothing."""
    assert cache().may_hold(request())
    assert cache().may_hold(request(temperature=1.0, seed=0))
    assert not cache().may_hold(request(temperature=1.0))
    assert not cache(entries=0).may_hold(request())


def test_the_least_recently_used_goes_first() -> None:
    """Reading an entry keeps it."""
    kept = cache(entries=2)
    kept.put(request("a"), answer())
    kept.put(request("b"), answer())
    kept.get(request("a"))
    kept.put(request("c"), answer())
    assert kept.get(request("b")) is None
    assert kept.get(request("a")) is not None
    assert len(kept) == 2


def test_bytes_are_bounded() -> None:
    """Old answers go until the new one fits; one larger than everything is not kept; the sum is exact."""
    kept = cache(entries=100, most_bytes=20_000)
    for number in range(50):
        kept.put(request(str(number)), answer("x" * 100))
        assert kept.bytes_held <= 20_000
    assert 0 < len(kept) < 50
    before = kept.bytes_held
    kept.put(request("49"), answer("x" * 100))
    assert kept.bytes_held == before
    kept.put(request("huge"), answer("x" * 20_000))
    assert kept.get(request("huge")) is None
    top = tuple((token, -1.0) for token in range(20))
    many = tuple(TokenLogprobs(token_id=1, logprob=-1.0, top=top) for _ in range(100))
    kept.put(request("l", logprobs=20), answer("x" * 100, many))
    assert kept.get(request("l", logprobs=20)) is None  # 2000 alternatives weigh more than the cache

"""Putting an engine together from models and settings."""

from __future__ import annotations

import pytest

from builders import ByteTokenizer, noisy_markov
from eagle3.config.engine import EngineSettings
from eagle3.config.speculation import Speculation
from eagle3.engine.loading import Models, build_engine
from eagle3.engine.policy import FixedPolicy
from eagle3.errors import ConfigError, InvalidInputError
from engine_doubles import TREE, request


def engine(*, with_draft=True, max_running=2, shape=TREE, **settings):
    target, draft = noisy_markov(2)
    return build_engine(
        Models(target=target, tokenizer=ByteTokenizer(), draft=draft if with_draft else None),
        settings=EngineSettings(**settings),
        shape=shape,
        max_running=max_running,
        policy=lambda _runner: FixedPolicy(shape),
    )


@pytest.mark.parametrize("with_draft", [True, False])
def test_the_cache_holds_what_all_requests_could_use(with_draft):
    """With memory to spare each running request has room for the whole context and its tree, in whole blocks."""
    built = engine(with_draft=with_draft, max_running=3, block_tokens=8)
    slots = built.snapshot().cache_tokens
    assert slots % 8 == 0
    assert 3 * 128 <= slots <= 3 * (128 + 8 + TREE.reserved_slots)
    for number in range(3):
        built.add(request([number + 1] * 100, name=str(number), max_new_tokens=100))
    answers = []
    while built.has_work:
        answers += [event.answer for event in built.step() if event.answer is not None]
    assert [len(answer.token_ids) for answer in answers] == [28] * 3
    assert built.snapshot().preemptions == 0
    assert all((answer.stats.drafted > 0) == with_draft for answer in answers)


def test_cache_tokens_are_what_is_asked_for():
    """`engine.cache_tokens` makes a cache of so many slots, to whole blocks; too large requests are refused."""
    built = engine(cache_tokens=100, block_tokens=16)
    assert built.snapshot().cache_tokens == 96
    with pytest.raises(InvalidInputError, match=r"need 99 slots.*has 96"):
        built.add(request([1] * 60, max_new_tokens=28))
    built.add(request([1] * 57, max_new_tokens=28))


def test_a_cache_without_room_for_one_tree_is_refused():
    """A tree larger than the cache is a contradiction of the config, told at the start."""
    with pytest.raises(ConfigError, match=r"engine.cache_tokens gives the KV cache 64 .* at least 233 are needed"):
        engine(cache_tokens=64, shape=Speculation(depth=6, top_k=8, nodes=200))

"""Prefill and cycles of one answer, with scripted models and with tiny real ones."""

from __future__ import annotations

import itertools

import pytest
import torch

from builders import ScriptedProposer, ScriptedTarget, noisy_markov, tiny_draft, tiny_target
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import Proposer
from eagle3.engine.cycle import Decoder
from eagle3.sampling.distribution import TokenDistribution
from eagle3.sampling.params import SamplingParams

SCRIPT = [(11 * i + 3) % 64 for i in range(60)]
PROMPT = [1, 2, 3, 4, 5]
ANSWER = SCRIPT[len(PROMPT) - 1 :]


def greedy(vocab_size=64):
    return TokenDistribution(
        SamplingParams(), prompt_ids=PROMPT, vocab_size=vocab_size, ending_ids=frozenset(), generator=torch.Generator()
    )


def right(position):
    return SCRIPT[position]


def wrong(position):
    return (SCRIPT[position] + 1) % 64


def run(guess, depth=4, cycles=3, prefill_chunk=512, max_tokens=100):
    target, proposer = ScriptedTarget(SCRIPT), ScriptedProposer(guess, depth)
    decoder = Decoder(target, proposer, greedy(), prefill_chunk=prefill_chunk)
    blocks = [decoder.prefill(PROMPT), *(decoder.cycle(max_tokens) for _ in range(cycles))]
    return blocks, target, proposer, decoder


def tokens(blocks):
    return [token_id for block in blocks for token_id in block.token_ids]


def test_accepts_all():
    """A draft that is always right emits its depth and the bonus token in every cycle."""
    blocks, *_ = run(right)
    assert [len(block.token_ids) for block in blocks] == [1, 5, 5, 5]
    assert [block.num_accepted for block in blocks] == [0, 4, 4, 4]
    assert [block.drafted for block in blocks] == [0, 4, 4, 4]
    assert tokens(blocks) == ANSWER[:16]


def test_accepts_none():
    """A draft that is always wrong costs nothing but its time: one token a cycle, the same text."""
    blocks, *_ = run(wrong, cycles=6)
    assert [len(block.token_ids) for block in blocks] == [1] * 7
    assert [block.drafted for block in blocks] == [0] + [4] * 6
    assert tokens(blocks) == ANSWER[:7]


def test_accepts_up_to_the_first_mistake():
    """What is right after a mistake is not accepted: it was drafted from another text."""
    blocks, *_ = run(lambda position: wrong(position) if position % 3 == 0 else right(position), cycles=4)
    # Drafted from position 5: right at 5, wrong at 6. Then from 7: right, right, wrong at 9; and so on.
    assert [len(block.token_ids) for block in blocks] == [1, 2, 3, 3, 3]
    assert tokens(blocks) == ANSWER[:12]


@pytest.mark.parametrize("guess", [right, wrong])
@pytest.mark.parametrize("prefill_chunk", [1, 2, 3, 4, 5, 64])
def test_draft_observes_each_feature_with_the_token_after_it(guess, prefill_chunk):
    """R11: feature i is told once, in order, with token i + 1, at chunk ends and after every cycle too."""
    blocks, _, proposer, decoder = run(guess, prefill_chunk=prefill_chunk)
    text = [*PROMPT, *tokens(blocks)]
    assert proposer.observed == [(float(i), text[i + 1]) for i in range(len(text) - 1)]
    # The target's cache holds every token but the last.
    assert decoder.cache.length == len(text) - 1
    assert decoder.cache.reserved == 0
    decoder.cache.check_integrity()


@pytest.mark.parametrize("prefill_chunk", [1, 2, 3, 64])
def test_prompt_is_read_once_in_chunks(prefill_chunk):
    """The target sees every prompt token once, no chunk longer than asked for."""
    _, target, _, _ = run(right, prefill_chunk=prefill_chunk, cycles=0)
    assert list(itertools.chain(*target.forwards)) == PROMPT
    assert max(map(len, target.forwards)) <= prefill_chunk


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 5, 6])
def test_cycle_never_emits_more_than_asked(max_tokens):
    """Nothing is drafted that could not be emitted: one token means a bare root."""
    blocks, *_ = run(right, max_tokens=max_tokens, cycles=1)
    assert len(blocks[1].token_ids) == min(max_tokens, 5)
    assert blocks[1].drafted == min(max_tokens - 1, 4)


def test_plain_decoding_is_a_cycle_of_a_bare_root():
    """Without a draft every cycle verifies one node and emits one token."""
    decoder = Decoder(ScriptedTarget(SCRIPT), None, greedy())
    blocks = [decoder.prefill(PROMPT), *(decoder.cycle(100) for _ in range(4))]
    assert tokens(blocks) == ANSWER[:5]
    assert [block.drafted for block in blocks] == [0] * 5


def test_each_token_comes_with_the_logits_it_was_chosen_from():
    """Row i of a block's logits is the target's at the node before token i."""
    for block in run(right)[0]:
        assert block.logits_SV.shape == (len(block.token_ids), 64)
        assert block.logits_SV.argmax(-1).tolist() == list(block.token_ids)


def test_seconds_are_split_between_draft_and_target():
    """With a clock that ticks once a reading, both parts are counted and add up to the whole."""
    ticks = itertools.count()
    decoder = Decoder(ScriptedTarget(SCRIPT), ScriptedProposer(right, 4), greedy(), clock=lambda: float(next(ticks)))
    prefill = decoder.prefill(PROMPT)
    assert (prefill.draft_s, prefill.verify_s) == (1.0, 2.0)
    cycle = decoder.cycle(10)
    assert (cycle.draft_s, cycle.verify_s) == (2.0, 1.0)


@pytest.mark.parametrize("prefill_chunk", [1, 4, 7, 64])
def test_prefill_chunks_change_nothing(prefill_chunk):
    """R11: with any chunk size the draft's and the target's keys and values, and the text, are those of one chunk."""
    target = tiny_target(seed=3)
    draft = tiny_draft(target)
    prompt = torch.randint(0, 64, (18,), generator=torch.Generator().manual_seed(2)).tolist()

    def answer(chunk):
        proposer = Proposer(draft, Speculation(depth=3, top_k=2, nodes=6))
        decoder = Decoder(target, proposer, greedy(), prefill_chunk=chunk)
        token_ids = [*decoder.prefill(prompt).token_ids]
        state = [
            tensor[..., : len(prompt), :].clone()
            for cache in (proposer.cache, decoder.cache)
            for tensor in (cache.keys_L1GCD, cache.values_L1GCD)
        ]
        assert proposer.cache.length == decoder.cache.length == len(prompt)
        for _ in range(5):
            token_ids += decoder.cycle(100).token_ids
        return token_ids, state

    token_ids, state = answer(prefill_chunk)
    expected_ids, expected_state = answer(512)
    assert token_ids == expected_ids
    for got, expected in zip(state, expected_state, strict=True):
        torch.testing.assert_close(got, expected)


def test_caches_hold_what_a_fresh_prefill_of_the_text_would():
    """After cycles that accepted scattered nodes, both caches equal those of the whole text read anew."""
    target, draft = noisy_markov()

    def fresh():
        proposer = Proposer(draft, Speculation(depth=4, top_k=3, nodes=10))
        return Decoder(target, proposer, greedy()), proposer

    decoder, proposer = fresh()
    text = [*PROMPT, *decoder.prefill(PROMPT).token_ids]
    accepted = 0
    for _ in range(8):
        block = decoder.cycle(100)
        accepted += block.num_accepted
        text += block.token_ids
    assert 8 < accepted < 32
    again, again_proposer = fresh()
    assert again.prefill(text[:-1]).token_ids == (text[-1],)
    for left, right_ in ((decoder.cache, again.cache), (proposer.cache, again_proposer.cache)):
        assert left.length == right_.length == len(text) - 1
        for name in ("keys_L1GCD", "values_L1GCD"):
            torch.testing.assert_close(
                getattr(left, name)[..., : left.length, :], getattr(right_, name)[..., : left.length, :],
                atol=1e-4, rtol=1e-4,
            )  # fmt: skip

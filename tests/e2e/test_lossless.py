"""Speculative decoding changes the time, never the text: tiny float32 models, every path of the engine.

R15, R17, R18, R21: same tokens as plain decoding for any tree, any drafters, any parameters, greedy and seeded.
"""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import (
    MARKOV_STEP,
    ByteTokenizer,
    edit_draft_json,
    noisy_markov,
    tiny_draft,
    tiny_draft_checkpoint,
    tiny_draft_config,
    tiny_target,
)
from eagle3.config.speculation import Speculation
from eagle3.engine.llm import LLM
from eagle3.models.draft_formats import write_draft
from eagle3.models.draft_loader import load_draft
from eagle3.sampling.params import sampling_params

VOCAB = 64
quick = settings(deadline=None, max_examples=20)
# Reduced and unsorted, so that a lost or misread mapping would show.
REDUCED = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(5))[:40].tolist()


@functools.cache
def models(seed, reduced):
    """Seeds 0 and 1: random models, seldom accepted; 2 and 3: a draft that is often and mostly right; 4: and texts
    that go round."""
    if seed >= 2:
        target, draft = noisy_markov(seed, noise=0.012 if seed == 3 else 0.03, step=8 if seed == 4 else MARKOV_STEP)
        if reduced:
            draft.lm_head.weight = torch.nn.Parameter(draft.lm_head.weight[REDUCED], requires_grad=False)
            draft.target_ids_V = torch.tensor(REDUCED)
        return target, draft
    target = tiny_target(seed=seed, vocab=VOCAB)
    return target, tiny_draft(target, target_ids=REDUCED if reduced else None, seed=seed)


def llm(seed=2, reduced=False, shape=None, ending_ids=()):
    target, draft = models(seed, reduced)
    return LLM(target, ByteTokenizer(ending_ids), draft, shape or Speculation(depth=4, top_k=3, nodes=10))


def answer(engine, prompt_ids, *, speculate, **values):
    *_, last = engine.stream(prompt_ids, sampling_params(**values), speculate=speculate)
    return last.answer


def assert_lossless(engine, prompt_ids, **values):
    speculative = answer(engine, prompt_ids, speculate=True, **values)
    plain = answer(engine, prompt_ids, speculate=False, **values)
    assert speculative.token_ids == plain.token_ids
    assert speculative.text == plain.text
    assert speculative.finish_reason == plain.finish_reason
    return speculative


shapes = st.builds(
    Speculation,
    depth=st.integers(1, 7),
    top_k=st.integers(1, 6),
    nodes=st.integers(1, 24),
    drafters=st.sampled_from([("eagle3",), ("eagle3", "suffix"), ("suffix",)]),
    suffix_min_match=st.integers(1, 3),
    suffix_tokens=st.integers(1, 20),
)
prompts = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12)
parameters = st.fixed_dictionaries(
    {},
    optional={
        "top_k": st.integers(0, 20),
        "top_p": st.floats(0.3, 1.0),
        "min_p": st.floats(0.0, 0.3),
        "repetition_penalty": st.sampled_from([0.8, 1.1, 1.3]),
        "presence_penalty": st.floats(-1.0, 1.5),
        "frequency_penalty": st.floats(-0.5, 1.5),
        "logit_bias": st.dictionaries(st.integers(0, VOCAB - 1), st.floats(-5.0, 5.0), max_size=3),
        "min_new_tokens": st.integers(0, 10),
    },
)


@quick
@given(shape=shapes, prompt_ids=prompts, seed=st.integers(0, 4), reduced=st.booleans())
def test_greedy_speculative_is_greedy_plain_for_any_tree(shape, prompt_ids, seed, reduced):
    """R21: at temperature 0 any depth, width and size of the tree gives the tokens of plain decoding."""
    assert_lossless(llm(seed, reduced, shape), prompt_ids, max_new_tokens=16)


@quick
@given(
    shape=shapes, prompt_ids=prompts, model=st.integers(0, 4), seed=st.integers(0, 2**63 - 1), values=parameters,
    heat=st.floats(0.2, 1.5),
)  # fmt: skip
def test_seeded_speculative_is_seeded_plain_for_any_parameters(shape, prompt_ids, model, seed, values, heat):
    """R17: one draw a token makes the same seed the same text, under every sampling parameter."""
    engine = llm(model, True, shape, ending_ids=(3, 17, 40))
    assert_lossless(engine, prompt_ids, max_new_tokens=14, seed=seed, temperature=heat, **values)


@quick
@given(shape=shapes, prompt_ids=prompts, model=st.integers(0, 4), values=parameters)
def test_greedy_is_lossless_under_penalties(shape, prompt_ids, model, values):
    """R15: penalties, bias and minimum length act at every node with that node's own prefix."""
    assert_lossless(llm(model, False, shape, ending_ids=range(0, 64, 5)), prompt_ids, max_new_tokens=14, **values)


@pytest.mark.parametrize("prompt_ids", [[1], [5, 6, 7], [9] * 11])
def test_penalised_text_differs_and_is_lossless(prompt_ids):
    """R15: at 1.3 the repetition penalty changes the text, and changes it alike with and without speculation."""
    engine = llm(1)
    penalised = assert_lossless(engine, prompt_ids, max_new_tokens=24, repetition_penalty=1.3)
    assert penalised.token_ids != answer(engine, prompt_ids, speculate=True, max_new_tokens=24).token_ids


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_width_changes_nothing_for_ragged_prompts(temperature):
    """R18: K = 4 gives the text of K = 1 for three prompts of different lengths, greedy and seeded."""
    texts = ["0", "12345", "987654321 0"]
    params = sampling_params(max_new_tokens=16, temperature=temperature, seed=4)
    wide = llm(shape=Speculation(depth=4, top_k=4, nodes=20)).generate(texts, params)
    chain = llm(shape=Speculation(depth=4, top_k=1, nodes=4)).generate(texts, params)
    assert [a[0].token_ids for a in wide] == [a[0].token_ids for a in chain]


def test_the_draft_is_of_some_use():
    """The models of this file accept between nothing and everything, so the laws above mean something."""
    only_the_draft = Speculation(depth=4, top_k=3, nodes=10, drafters=("eagle3",))
    for reduced in (False, True):
        stats = [
            answer(
                llm(seed, reduced, only_the_draft),
                [1, 2, 3],
                speculate=True,
                max_new_tokens=40,
                temperature=heat,
                seed=1,
            ).stats
            for seed in range(4)
            for heat in (0.0, 0.5)
        ]
        assert max(one.tau for one in stats) > 2.0
        assert min(one.tau for one in stats) < 1.5
        deepest = max(len(one.accepted_at_depth) for one in stats)
        assert deepest == 4 or reduced, "whole paths are accepted"


def test_repetitions_are_of_some_use():
    """Where texts go round, both drafters together accept more than either, and below the draft's levels."""

    def stats(*drafters):
        shape = Speculation(depth=4, top_k=3, nodes=10, drafters=drafters)
        return answer(llm(4, shape=shape), [1, 2, 3], speculate=True, max_new_tokens=60).stats

    draft, both, repetitions = stats("eagle3"), stats("eagle3", "suffix"), stats("suffix")
    assert both.tau > max(draft.tau, repetitions.tau) > min(draft.tau, repetitions.tau) > 1.5
    assert len(both.accepted_at_depth) > 4


def test_same_prefix_requests_do_not_disturb_each_other():
    """R12, R13: two prompts with a common prefix, in step with each other, answer as each does alone."""
    engine = llm()
    prompts_ = [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 30]]
    alone = [answer(engine, prompt_ids, speculate=True, max_new_tokens=16).token_ids for prompt_ids in prompts_]
    streams = [engine.stream(prompt_ids, sampling_params(max_new_tokens=16)) for prompt_ids in prompts_]
    found: dict[int, tuple[int, ...]] = {}
    while len(found) < 2:
        for which, stream in enumerate(streams):
            piece = next(stream, None)
            if piece is not None and piece.answer is not None:
                found[which] = piece.answer.token_ids
    assert [found[0], found[1]] == alone
    assert alone[0] != alone[1]


def test_drafts_maximum_position_does_not_matter(tmp_path):
    """R10: a draft that declares 16 positions drafts for a prompt of 20 as one that declares 64."""
    answers = []
    for limit in (16, 64):
        target = tiny_target(seed=1, hidden=16, vocab=40)
        path = tmp_path / str(limit)
        write_draft(path, tiny_draft_checkpoint(tiny_draft_config()), "original")
        draft = load_draft(edit_draft_json(path, max_position_embeddings=limit), target)
        engine = LLM(target, ByteTokenizer(), draft, Speculation(depth=3, top_k=4, nodes=12))
        answers.append(assert_lossless(engine, list(range(20)), max_new_tokens=20))
    assert answers[0].token_ids == answers[1].token_ids
    assert answers[0].stats.accepted_at_depth == answers[1].stats.accepted_at_depth
    assert answers[0].stats.drafted == answers[1].stats.drafted


def test_cache_growth_is_lossless():
    """A text that outgrows the first 256 slots of both caches goes on as in plain decoding."""
    target = tiny_target(seed=1, max_position=320)
    engine = LLM(target, ByteTokenizer(), tiny_draft(target), Speculation(depth=4, top_k=3, nodes=10))
    prompt_ids = [(7 * i) % 64 for i in range(245)]
    assert len(assert_lossless(engine, prompt_ids, max_new_tokens=40).token_ids) == 40


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_cuda_gives_every_parameter_its_effect(temperature):
    """On CUDA, where parameters live on the CPU and logits do not, decoding under all of them is lossless too."""
    target = tiny_target(seed=1).cuda()
    draft = tiny_draft(target.cpu()).cuda()
    target = target.cuda()
    draft.share_embedding(target.embed_tokens)
    engine = LLM(target, ByteTokenizer([3]), draft, Speculation(depth=4, top_k=3, nodes=10))
    assert_lossless(
        engine, [1, 2, 3], max_new_tokens=24, min_new_tokens=8, temperature=temperature, seed=3, top_k=20, top_p=0.9,
        min_p=0.01, repetition_penalty=1.2, presence_penalty=0.5, frequency_penalty=0.2, logit_bias={4: 1.0},
        logprobs=3,
    )  # fmt: skip

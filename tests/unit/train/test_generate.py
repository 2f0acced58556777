"""Bulk generation: a batch of padded rows answers as each prompt alone would, and rows keep their owners."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest
import torch

from builders import MARKOV_STEP, MARKOV_VOCAB, markov_target, tiny_target
from eagle3.models.attention import causal_attend
from eagle3.train.generate import LeftPaddedCache, generate_all, generate_batch

VOCAB = 64
# The cache is bfloat16: where the two best logits of float32 are this close, rounding may choose. Half of the tiny
# targets' gaps are above 0.7, and a row that sees padding is off by more than 10.
EPSILON = 0.05


@functools.cache
def random_target(seed):
    return tiny_target(vocab=VOCAB, seed=seed)


def generate(target, prompts, *, max_new_tokens=20, stop_ids=(), temperatures=None, seed=0):
    return generate_batch(
        target,
        prompts,
        max_new_tokens=max_new_tokens,
        stop_ids=frozenset(stop_ids),
        temperatures=temperatures or [0.0] * len(prompts),
        generator=torch.Generator().manual_seed(seed),
    )


def random_prompts(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(VOCAB, (length,), generator=generator).tolist() for length in lengths]


@torch.inference_mode()
def assert_greedy(target, prompt, new_ids):
    """Each new token is the float32 target's choice after what came before it, ties within EPSILON aside."""
    token_ids = torch.tensor([[*prompt, *new_ids]])
    hidden = target(token_ids, torch.arange(token_ids.shape[1])[None], causal_attend).hidden_BSH[0]
    logits = target.logits(hidden)[len(prompt) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(new_ids)[:, None])[:, 0]
    assert bool((chosen >= logits.max(dim=-1).values - EPSILON).all())


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("lengths", [(3, 11, 7, 1, 5, 9), (4, 4, 4), (1, 30), (6,)])
def test_padded_rows_answer_greedily(seed, lengths):
    """Whatever the lengths beside it, a row's tokens are the float32 target's own choices for its prompt alone."""
    target = random_target(seed)
    prompts = random_prompts(lengths, seed)
    answers = generate(target, prompts)
    assert [len(answer) for answer in answers] == [20] * len(prompts)
    for prompt, answer in zip(prompts, answers, strict=True):
        assert_greedy(target, prompt, answer)
    assert len({tuple(answer) for answer in answers}) == len(prompts)  # the prompts matter


def test_the_tolerance_finds_padding_that_is_seen(monkeypatch):
    """Accepts none: with padding visible to the rows the check above fails."""
    begin = LeftPaddedCache.begin

    def unmasked(self, steps):
        start, self.start_B = self.start_B, torch.zeros_like(self.start_B)
        positions = begin(self, steps)
        self.start_B = start
        return positions

    monkeypatch.setattr(LeftPaddedCache, "begin", unmasked)
    prompts = random_prompts((3, 11))
    with pytest.raises(AssertionError):
        assert_greedy(random_target(1), prompts[0], generate(random_target(1), prompts)[0])


def chain(token, count):
    """What the Markov target answers."""
    return [(token + MARKOV_STEP * step) % MARKOV_VOCAB for step in range(1, count + 1)]


def test_a_stop_token_ends_its_row_and_is_kept():
    """Each row ends with the first stop token it meets, or at the limit; no row is touched by another's end."""
    answers = generate(markov_target(), [[0], [7], [1]], max_new_tokens=5, stop_ids=[21, 36])
    assert answers == [[7, 14, 21], [14, 21], chain(1, 5)]


def test_generation_goes_on_past_stop_tokens_in_the_prompt():
    """Chat templates hold end marks: only new tokens end a row."""
    assert generate(markov_target(), [[21, 36, 0]], max_new_tokens=3, stop_ids=[21, 36]) == [[7, 14, 21]]


@pytest.mark.parametrize("max_new_tokens", [1, 2, 40])
def test_rows_keep_their_owners_when_others_are_dropped(max_new_tokens):
    """Rows end one by one, the batch shrinks several times, and every answer lands at its prompt's place."""
    lasting = [40, 3, 17, 9, 33, 26, 12, 1]  # tokens that each row needs until the stop token 0
    prompts = [[5] * (index % 3) + [-MARKOV_STEP * steps % MARKOV_VOCAB] for index, steps in enumerate(lasting)]
    widths = []
    target = markov_target()
    forward = target.forward
    target.forward = lambda ids, *rest: widths.append(len(ids)) or forward(ids, *rest)
    answers = generate(target, prompts, max_new_tokens=max_new_tokens, stop_ids=[0])
    for prompt, steps, answer in zip(prompts, lasting, answers, strict=True):
        assert answer == chain(prompt[-1], min(steps, max_new_tokens))
    assert len(widths) == max_new_tokens  # no pass more than needed
    if max_new_tokens == 40:
        assert sorted(set(widths), reverse=True) == [8, 4, 2, 1]


def test_dropping_rows_keeps_keys_and_positions():
    """With a target whose text depends on all before it, rows that outlive others still answer greedily."""
    target = random_target(2)
    prompts = random_prompts((2, 9, 5, 7), seed=4)
    free = generate(target, prompts)
    stops = {free[0][2], free[1][3], free[2][4]} - set(free[3][:18])
    answers = generate(target, prompts, stop_ids=stops)
    assert min(map(len, answers)) < 10 < max(map(len, answers))
    for prompt, answer in zip(prompts, answers, strict=True):
        assert_greedy(target, prompt, answer)


def test_all_rows_ended_ends_the_batch():
    """No forward pass is spent once every row has ended."""
    target = markov_target()
    passes = []
    forward = target.forward
    target.forward = lambda *given: passes.append(1) or forward(*given)
    generate(target, [[0], [0]], max_new_tokens=50, stop_ids=[14])
    assert len(passes) == 2


def test_cold_rows_are_untouched_by_hot_ones():
    """Rows at temperature 0 are the same beside sampled rows, whatever its seed; sampled rows change with it."""
    target = random_target(3)
    prompts = random_prompts((6, 4, 8, 5), seed=1)
    cold = generate(target, prompts)
    mixed = [generate(target, prompts, temperatures=[0.0, 5.0, 0.0, 5.0], seed=seed) for seed in (0, 1)]
    for answers in mixed:
        assert (answers[0], answers[2]) == (cold[0], cold[2])
        assert answers[1] != cold[1]
    assert mixed[0][1] != mixed[1][1]
    assert mixed[0] == generate(target, prompts, temperatures=[0.0, 5.0, 0.0, 5.0], seed=0)


def test_a_sampled_row_follows_its_temperature():
    """The share of the best token among the first ones sampled is its probability at that temperature."""
    target = markov_target()
    with torch.inference_mode():
        hidden = target(torch.tensor([[3]]), torch.zeros(1, 1, dtype=torch.int64), causal_attend).hidden_BSH[0, 0]
        wanted = float((target.logits(hidden) / 0.7).softmax(dim=-1).max())
    answers = generate(target, [[3]] * 2000, max_new_tokens=1, temperatures=[0.7] * 2000)
    share = sum(answer == [10] for answer in answers) / 2000
    assert share == pytest.approx(wanted, abs=0.045)  # four standard deviations
    assert 0.2 < wanted < 0.8


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_every_prompt_is_answered_once(batch_size):
    """`generate_all` hands over every index once, shortest prompts first, batches of the size asked for."""
    prompts = [[5] * (index * 7 % 10) + [index] for index in range(10)]
    seen, sizes = {}, []

    def on_batch(chunk, answers):
        sizes.append(len(chunk))
        seen.update(zip(chunk, answers, strict=True))

    generate_all(
        markov_target(),
        prompts,
        batch_size=batch_size,
        max_new_tokens=2,
        stop_ids=frozenset(),
        temperatures=[0.0] * 10,
        generator=torch.Generator(),
        on_batch=on_batch,
    )
    assert seen == {index: chain(index, 2) for index in range(10)}
    assert [len(prompts[index]) for index in seen] == sorted(map(len, prompts))
    assert max(sizes) <= batch_size
    assert len(sizes) == -(-10 // batch_size)


def test_padding_never_gives_nan():
    """A padding query has nothing real to see; it sees itself, so no NaN reaches the cache."""
    target = random_target(1)
    cache = LeftPaddedCache(target, torch.tensor([3, 0]), 4)
    positions = cache.begin(4)
    assert positions.tolist() == [[0, 0, 0, 0], [0, 1, 2, 3]]
    with torch.inference_mode():
        target(torch.zeros(2, 4, dtype=torch.int64), positions, cache)
    assert bool(torch.isfinite(cache.keys).all())
    assert bool(torch.isfinite(cache.values).all())


def test_a_cache_holds_what_is_asked_for():
    """Capacity is the longest prompt and its new tokens: the last position is used and none after it."""
    arch = SimpleNamespace(num_layers=1, num_kv_heads=1, head_dim=2)
    cache = LeftPaddedCache(SimpleNamespace(arch=arch), torch.tensor([0]), 3)
    for steps in (2, 1):
        cache.begin(steps)
        x = torch.ones(1, 1, steps, 2)
        cache(0, x, x, x)
        cache.finish()
    assert cache.length == 3
    assert bool((cache.keys == 1).all())

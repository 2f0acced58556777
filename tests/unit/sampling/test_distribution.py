"""What a token is drawn from: every parameter on vectors small enough to check by hand or against Hugging Face."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from eagle3.errors import InvalidInputError, NumericalError
from eagle3.sampling.distribution import TokenDistribution
from eagle3.sampling.params import sampling_params

LOGITS = torch.tensor([2.0, -1.0, 0.5, 3.0, 0.0, -2.5, 1.5, 0.25])
INF = float("inf")


def distribution(prompt_ids=(0, 1), vocab_size=8, ending_ids=(), seed=0, **values):
    return TokenDistribution(
        sampling_params(**values),
        prompt_ids=prompt_ids,
        vocab_size=vocab_size,
        ending_ids=frozenset(ending_ids),
        generator=torch.Generator().manual_seed(seed),
    )


def support(probs_V):
    return probs_V.nonzero().flatten().tolist()


def test_temperature_zero_takes_the_argmax_and_draws_nothing():
    """Greedy decoding is deterministic and leaves the random stream alone."""
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    greedy = TokenDistribution(
        sampling_params(), prompt_ids=(), vocab_size=8, ending_ids=frozenset(), generator=generator
    )
    assert [greedy.choose(LOGITS, ()) for _ in range(3)] == [3, 3, 3]
    assert torch.equal(generator.get_state(), before)
    assert greedy.probabilities(LOGITS, ()).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("values", [{}, {"top_k": 2}, {"top_p": 0.5, "min_p": 0.1}, {"repetition_penalty": 1.3}])
def test_a_token_costs_one_vector_of_noise(values):
    """Above temperature 0 each token takes exactly one vector from the stream, whatever else is asked for."""
    generator = torch.Generator().manual_seed(3)
    sampler = TokenDistribution(
        sampling_params(temperature=0.7, **values),
        prompt_ids=(), vocab_size=8, ending_ids=frozenset(), generator=generator,
    )  # fmt: skip
    for _ in range(5):
        sampler.choose(LOGITS, (1, 2))
    reference = torch.Generator().manual_seed(3)
    for _ in range(5):
        torch.rand(8, dtype=torch.float64, generator=reference)
    assert torch.equal(generator.get_state(), reference.get_state())


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperature_divides_the_logits(temperature):
    """Probabilities are softmax(logits / temperature)."""
    expected = (LOGITS.double() / temperature).softmax(-1)
    torch.testing.assert_close(
        distribution(temperature=temperature).probabilities(LOGITS, ()), expected, atol=1e-7, rtol=0
    )


@pytest.mark.parametrize("temperature", [1e-3, 1e-20, 1e-45, 5e-324])
@pytest.mark.parametrize("values", [{}, {"top_k": 3, "top_p": 0.9, "min_p": 0.1}])
def test_temperature_near_zero_is_greedy(temperature, values):
    """However small the temperature, the division never turns into NaN: the argmax has probability 1."""
    sampler = distribution(temperature=temperature, **values)
    assert sampler.probabilities(LOGITS, ()).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert sampler.choose(LOGITS * 1000, ()) == 3


def hf_scores(processors, input_ids, logits_V):
    scores = logits_V[None].clone()
    for processor in processors:
        scores = processor(torch.tensor([list(input_ids)]), scores)
    return scores[0]


@pytest.mark.parametrize("penalty", [0.5, 1.3, 5.0])
def test_repetition_penalty_is_hugging_faces(penalty):
    """Positive logits of seen tokens, prompt included, are divided and negative ones multiplied, once per token."""
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    expected = hf_scores([RepetitionPenaltyLogitsProcessor(penalty)], [0, 1, 5, 3, 3], LOGITS)
    got = distribution(prompt_ids=(0, 1), repetition_penalty=penalty).adjusted(LOGITS, (5, 3, 3))
    torch.testing.assert_close(got, expected)
    assert not torch.equal(got, LOGITS)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "values",
    [
        {"top_k": 1}, {"top_k": 3}, {"top_k": 8}, {"top_k": 100}, {"top_p": 0.01}, {"top_p": 0.5}, {"top_p": 0.95},
        {"min_p": 0.05}, {"min_p": 0.5}, {"min_p": 1.0},
        {"top_k": 6, "top_p": 0.9, "min_p": 0.2, "repetition_penalty": 1.4, "temperature": 0.6},
    ],
)  # fmt: skip
def test_truncations_are_hugging_faces(values, seed):
    """Penalty, temperature, top-k, top-p and min-p give the same probabilities as Hugging Face's processors."""
    from transformers.generation import logits_process as hf

    logits = torch.randn(8, generator=torch.Generator().manual_seed(seed)) * 2
    values = {"temperature": 1.0} | values
    processors = [
        hf.RepetitionPenaltyLogitsProcessor(values.get("repetition_penalty", 1.0)),
        hf.TemperatureLogitsWarper(values["temperature"]),
    ]
    if "top_k" in values:
        processors.append(hf.TopKLogitsWarper(values["top_k"]))
    if "top_p" in values:
        processors.append(hf.TopPLogitsWarper(values["top_p"]))
    if "min_p" in values:
        processors.append(hf.MinPLogitsWarper(values["min_p"]))
    expected = hf_scores(processors, [0, 1, 5], logits).double().softmax(-1)
    got = distribution(**values).probabilities(logits, (5,))
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)
    assert support(got) == support(expected)


def test_top_k_keeps_ties_with_the_last():
    """Tokens tied with the k-th stay, as in Hugging Face and vLLM; the cut never depends on token ids."""
    logits = torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    assert support(distribution(temperature=1.0, top_k=2).probabilities(logits, ())) == [1, 2, 3]
    assert support(distribution(temperature=1.0, top_k=4).probabilities(logits, ())) == [0, 1, 2, 3]


def test_top_p_is_the_smallest_set_that_reaches_it():
    """With 0.5, 0.3, 0.15, 0.05: top_p 0.6 keeps two tokens, 0.9 three, and a tiny one never none."""
    logits = torch.tensor([0.15, 0.5, 0.05, 0.3]).log()
    for top_p, kept in ((1e-9, [1]), (0.6, [1, 3]), (0.9, [0, 1, 3]), (0.99, [0, 1, 2, 3])):
        assert support(distribution(vocab_size=4, temperature=1.0, top_p=top_p).probabilities(logits, ())) == kept


def test_presence_and_frequency_penalties_count_generated_tokens_only():
    """As in the OpenAI definition: presence once, frequency per occurrence, the prompt not counted."""
    got = distribution(prompt_ids=(0, 1), presence_penalty=0.5, frequency_penalty=0.25).adjusted(LOGITS, (3, 3, 3, 6))
    expected = LOGITS.clone()
    expected[3] -= 0.5 + 3 * 0.25
    expected[6] -= 0.5 + 0.25
    torch.testing.assert_close(got, expected)


def test_logit_bias_comes_before_the_penalties():
    """A bias is added to the model's own logit, as in vLLM and Hugging Face; the repetition penalty acts on the sum."""
    got = distribution(prompt_ids=(1,), logit_bias={1: 4.0, 4: -2.0}, repetition_penalty=2.0).adjusted(LOGITS, ())
    expected = LOGITS.clone()
    expected[1] = (-1.0 + 4.0) / 2.0
    expected[4] = -2.0
    torch.testing.assert_close(got, expected)


def test_adjusting_leaves_the_targets_logits_alone():
    """The logits that log-probabilities are reported from are never written to."""
    logits = LOGITS.clone()
    sampler = distribution(
        ending_ids=(2,), min_new_tokens=5, logit_bias={1: 1.0}, repetition_penalty=1.5, presence_penalty=1.0
    )
    sampler.choose(logits, (3,))
    assert torch.equal(logits, LOGITS)


@pytest.mark.parametrize("values", [{}, {"logit_bias": {0: 0.5}, "presence_penalty": 0.1}])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_min_new_tokens_bans_endings_until_then(temperature, values):
    """Before the minimum no ending token can be chosen, end-of-text or stop token alike; from it on it can."""
    sampler = distribution(ending_ids=(3, 6), stop_token_ids=(6,), min_new_tokens=2, temperature=temperature, **values)
    for generated in ((), (0,)):
        probs = sampler.probabilities(LOGITS, generated)
        assert probs[3] == 0
        assert probs[6] == 0
    assert sampler.probabilities(LOGITS, (0, 0))[3] > 0


def test_minimum_does_not_mind_endings_beyond_the_vocabulary():
    """A tokenizer may name end tokens that the model has no logit for; they cannot come anyway."""
    sampler = distribution(ending_ids=(3, 11), min_new_tokens=1)
    assert sampler.choose(LOGITS, ()) == 0


@pytest.mark.parametrize("values", [{"logit_bias": {8: 1.0}}, {"logit_bias": {-1: 1.0}}, {"stop_token_ids": (8,)}])
def test_token_id_out_of_the_vocabulary_is_refused(values):
    """A bias or stop token that does not exist is an error that names it and the allowed range."""
    with pytest.raises(InvalidInputError, match=r"token id (8|-1) .*0 to 7"):
        distribution(**values)


@pytest.mark.parametrize("bad", [float("nan"), INF, -INF])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_refused(bad, temperature):
    """One NaN or infinite logit is a NumericalError, never a token."""
    logits = LOGITS.clone()
    logits[5] = bad
    with pytest.raises(NumericalError, match="NaN or infinite"):
        distribution(temperature=temperature).choose(logits, ())


def test_opposite_infinities_are_noticed():
    """Infinities that would cancel in a sum are still refused."""
    logits = LOGITS.clone()
    logits[1], logits[2] = INF, -INF
    with pytest.raises(NumericalError):
        distribution().choose(logits, ())


@pytest.mark.parametrize("values", [{}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.2, "presence_penalty": 1.0}])
def test_choose_draws_from_probabilities(values):
    """5,000 draws agree with `probabilities` by chi-square, and tokens of probability 0 never come."""
    sampler = distribution(temperature=0.9, **values)
    probs = sampler.probabilities(LOGITS, (3, 1))
    draws = 5_000
    counts = Counter(sampler.choose(LOGITS, (3, 1)) for _ in range(draws))
    assert set(counts) <= set(support(probs))
    statistic = sum((counts[t] - draws * float(probs[t])) ** 2 / (draws * float(probs[t])) for t in support(probs))
    from scipy.stats import chi2

    assert statistic < chi2.ppf(0.9999, max(1, len(support(probs)) - 1))


@pytest.mark.parametrize("noise", [0.0, 2.0**-53, 1.0 - 2.0**-53])
def test_extreme_noise_lets_no_cut_token_win(monkeypatch, noise):
    """The least and the largest noise that the stream can give choose a token that may come, never a cut one."""
    logits = torch.tensor([-INF, 5.0, 5.0, -INF]).nan_to_num(neginf=-1e30)
    for values in ({}, {"top_k": 2}, {"top_p": 0.9}, {"min_p": 0.5}):
        sampler = distribution(vocab_size=4, temperature=1.0, **values)
        monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.full(shape, noise, dtype=torch.float64))
        assert sampler.choose(logits, ()) in (1, 2)
        monkeypatch.undo()


def test_a_cut_changes_no_other_tokens_noise():
    """Each token has its own noise: a draw that fell on a kept token stays the same when others are cut."""
    generator = torch.Generator().manual_seed(1)
    same = 0
    for seed in range(200):
        logits = torch.randn(50, generator=generator)
        free = distribution(vocab_size=50, temperature=1.0, seed=seed).choose(logits, ())
        cut = distribution(vocab_size=50, temperature=1.0, seed=seed, top_k=25)
        if cut.probabilities(logits, ())[free] > 0:
            same += 1
            assert cut.choose(logits, ()) == free
    assert same > 100


def test_rounding_does_not_change_the_token():
    """Logits that differ in the last digits, as between one row and a tree, give the same tokens for a seed.

    A vocabulary with a long tail of rare tokens is what cumulative sums fail at.
    """
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(20_000, generator=generator)
    noisy = logits + 1e-6 * torch.randn(20_000, generator=generator)
    exact, rounded = (distribution(vocab_size=20_000, temperature=1.0, seed=4) for _ in range(2))
    assert [exact.choose(logits, ()) for _ in range(300)] == [rounded.choose(noisy, ()) for _ in range(300)]


def test_same_seed_same_tokens():
    """R17: two streams of one seed agree, and another seed does not."""

    def tokens(seed):
        sampler = distribution(seed=seed, temperature=1.0)
        return [sampler.choose(LOGITS, ()) for _ in range(30)]

    assert tokens(5) == tokens(5)
    assert tokens(5) != tokens(6)


def test_probabilities_sum_to_one():
    """Whatever is cut, the rest is renormalised."""
    probs = distribution(temperature=0.8, top_k=5, top_p=0.9, min_p=0.05).probabilities(LOGITS, (1,))
    assert math.isclose(float(probs.sum()), 1.0, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, True),
        ({"top_k": 5, "top_p": 0.5, "min_p": 0.5, "seed": 3, "stop": ("x",), "ignore_eos": True, "n": 3}, True),
        ({"temperature": 0.1}, False),
        ({"logit_bias": {1: 0.5}}, False),
        ({"repetition_penalty": 1.1}, False),
        ({"presence_penalty": 0.1}, False),
        ({"frequency_penalty": -0.1}, False),
        ({"min_new_tokens": 1}, False),
    ],
)
def test_is_argmax_says_when_a_batch_may_take_the_argmax(values, expected):
    """True only if every token of the answer is the argmax of raw logits; it never changes on the way."""
    sampler = distribution(ending_ids=(3,), **values)
    assert sampler.is_argmax is expected
    generator = torch.Generator().manual_seed(0)
    text: list[int] = []
    for _ in range(20):
        logits = torch.randn(8, generator=generator)
        text.append(sampler.choose(logits, text))
        assert sampler.is_argmax is expected
        assert not expected or text[-1] == int(logits.argmax())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_read(dtype):
    """Logits of 16 bits are chosen from as their float32 values are."""
    logits = LOGITS.to(dtype)
    for values in ({}, {"temperature": 0.7}, {"temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.2}):
        assert distribution(**values).choose(logits, (3,)) == distribution(**values).choose(logits.float(), (3,))


def test_large_finite_logits_are_no_fault():
    """Logits whose sum overflows float32 are numbers all the same."""
    assert distribution().choose(torch.tensor([3e38, 1.0, 3e38, -3e38, 0.0, 0.0, 0.0, 3.2e38]), ()) == 7


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_repetition_penalty_acts_alike_in_speculative_decoding(temperature):
    """R15: at 1.3 a drafted tree gives the tokens of plain decoding, and they are not those of 1.0."""
    from eagle3.tree.draft_tree import DraftTree
    from eagle3.verify.verification import verify

    rows = torch.randn(8, 8, generator=torch.Generator().manual_seed(11)) * 0.7

    def plain(penalty):
        sampler = distribution(repetition_penalty=penalty, temperature=temperature)
        text = [0]
        for _ in range(40):
            text.append(sampler.choose(rows[text[-1]], text[1:]))
        return text[1:]

    def speculative(penalty, wrong):
        sampler = distribution(repetition_penalty=penalty, temperature=temperature)
        reference, text = plain(penalty), [0]
        while len(text) <= 36:
            drafted = reference[len(text) - 1 : len(text) + 3]
            if wrong is not None:
                drafted[wrong] = (drafted[wrong] + 1) % 8
            tree = DraftTree(token_ids=(text[-1], *drafted), parents=(0, 0, 1, 2, 3), scores=(0.0,) * 5)
            tail = list(text[1:])
            text += verify(
                tree,
                lambda node, done: sampler.choose(rows[tree.token_ids[node]], (*tail, *done)),  # noqa: B023
            ).emitted_ids
        return text[1:37]

    for wrong in (None, 0, 2, 3):
        assert speculative(1.3, wrong) == plain(1.3)[:36]
    assert plain(1.3) != plain(1.0)

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
        torch.empty(8, dtype=torch.float64).exponential_(generator=reference)
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


def test_least_noise_lets_no_cut_token_win(monkeypatch):
    """Noise of exactly 0, the least that the stream can give, chooses a token that may come, never a cut one."""
    logits = torch.tensor([0.0, 5.0, 5.0, 0.0])
    sampler = distribution(vocab_size=4, temperature=1.0, top_k=2)
    monkeypatch.setattr(torch.Tensor, "exponential_", lambda self, **_: self.zero_())
    assert sampler.choose(logits, ()) in (1, 2)


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

"""R23: 200,000 runs of drafting and verification have the law of direct sampling, under every kind of parameter.

The target is a random table: its logits depend on the whole prefix. Every run goes through the real `verify` and
the real `TokenDistribution.choose`; only what is the same each time, the trees and the adjusted and truncated
logits of a prefix (from the real code as well), is remembered between runs. The law to meet is not sampled but
computed, by a float64 implementation of the parameters of its own.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from builders import grow_tree
from eagle3.config.speculation import Speculation
from eagle3.sampling.distribution import TokenDistribution
from eagle3.sampling.params import sampling_params
from eagle3.verify.verification import Verification, verify

VOCAB = 8
PROMPT = (5, 2)
SHAPE = Speculation(depth=2, top_k=3, nodes=12)
RUNS = 200_000
ALLOWED = 0.01

CASES: dict[str, dict[str, Any]] = {
    "plain": {"temperature": 1.0},
    "top_k": {"temperature": 0.8, "top_k": 3},
    "top_p": {"temperature": 1.3, "top_p": 0.8},
    "penalties": {
        "temperature": 1.0, "repetition_penalty": 1.5, "presence_penalty": 0.6, "frequency_penalty": 0.7,
    },
    "everything": {
        "temperature": 0.9, "top_k": 6, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.2,
        "presence_penalty": -0.5, "frequency_penalty": 0.4, "logit_bias": {1: 0.8, 6: -1.0},
    },
}  # fmt: skip


def table(kind, prefix):
    """Logits after a prefix: a fixed random function of it; the draft's differ from the target's."""
    noise = np.random.default_rng([7, *prefix]).normal(0, 1.2, VOCAB)
    if kind == "draft":
        noise = 0.7 * noise + np.random.default_rng([8, *prefix]).normal(0, 1.0, VOCAB)
    return torch.tensor(noise, dtype=torch.float32)


def draft_tree(prefix):
    """The tree that the table's draft grows below the last token of `prefix`."""
    rows = [prefix]

    def expand(frontier):
        nonlocal rows
        rows = [(*rows[r], t) for r, t in zip(frontier.parent_rows, frontier.token_ids, strict=True)]
        return torch.stack([table("draft", path).log_softmax(-1) for path in rows])

    return grow_tree(SHAPE, (*PROMPT, *prefix)[-1], table("draft", prefix).log_softmax(-1), torch.arange(VOCAB), expand)


class Remembering(TokenDistribution):
    """Computes the scores of a prefix once; `choose` itself, the draw, is inherited."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._adjusted: dict[tuple[int, ...], torch.Tensor] = {}
        self._cut: dict[int, torch.Tensor] = {}

    def adjusted(self, logits_V, generated_ids):
        key = tuple(generated_ids)
        if key not in self._adjusted:
            self._adjusted[key] = super().adjusted(logits_V, generated_ids)
        return self._adjusted[key]

    def _truncated(self, scores_V):
        if id(scores_V) not in self._cut:
            self._cut[id(scores_V)] = super()._truncated(scores_V)
        return self._cut[id(scores_V)]


def emitted_counts(verify_with, runs, **values):
    """How often each pair of first two tokens is emitted; cycles go on until there are two."""
    distribution = Remembering(
        sampling_params(**values),
        prompt_ids=PROMPT,
        vocab_size=VOCAB,
        ending_ids=frozenset(),
        generator=torch.Generator().manual_seed(2024),
    )
    prefixes = [(), *((token,) for token in range(VOCAB))]
    trees = {prefix: draft_tree(prefix) for prefix in prefixes}
    logits = {
        prefix: table("target", prefix) for size in range(4) for prefix in itertools.product(range(VOCAB), repeat=size)
    }
    counts, accepted_runs = np.zeros((VOCAB, VOCAB)), 0
    for _ in range(runs):
        text: tuple[int, ...] = ()
        while len(text) < 2:
            before = text

            def choose(_node, accepted, before=before):
                prefix = (*before, *accepted)
                return distribution.choose(logits[prefix], prefix)

            result = verify_with(trees[before], choose)
            accepted_runs += result.num_accepted > 0
            text += result.emitted_ids
        counts[text[:2]] += 1
    return counts / runs, accepted_runs / runs


def direct_law(**values):
    """The law of the first two tokens of plain sampling, float64 [V, V]."""
    law = np.zeros((VOCAB, VOCAB))
    for first, chance in enumerate(reference_probs((), **values)):
        if chance:
            law[first] = chance * reference_probs((first,), **values)
    return law


def reference_probs(
    generated, temperature, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, presence_penalty=0.0,
    frequency_penalty=0.0, logit_bias=None,
):  # fmt: skip
    """The definitions of the sampling parameters, token by token in plain Python."""
    scores = [float(logit) for logit in table("target", generated)]
    for token, bias in (logit_bias or {}).items():
        scores[token] += bias
    for token in set(PROMPT) | set(generated):
        scores[token] = scores[token] / repetition_penalty if scores[token] > 0 else scores[token] * repetition_penalty
    for token in set(generated):
        scores[token] -= presence_penalty + frequency_penalty * generated.count(token)
    order = sorted(range(VOCAB), key=lambda token: -scores[token])
    kept = order[:top_k] if top_k else order
    weights = {token: np.exp(scores[token] / temperature) for token in kept}
    nucleus, mass, total = [], 0.0, sum(weights.values())
    for token in kept:
        if mass >= top_p * total:
            break
        nucleus.append(token)
        mass += weights[token]
    probs = np.zeros(VOCAB)
    for token in nucleus:
        if weights[token] >= min_p * weights[order[0]]:
            probs[token] = weights[token]
    return probs / probs.sum()


def total_variation(left, right):
    return 0.5 * float(np.abs(left - right).sum())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
def test_two_hundred_thousand_runs_have_the_law_of_direct_sampling(case):
    """R23: total variation between the emitted first two tokens and direct sampling stays below 0.01."""
    frequencies, accepted = emitted_counts(verify, RUNS, **CASES[case])
    assert accepted > 0.2, "the draft is accepted often enough for the test to mean something"
    assert total_variation(frequencies, direct_law(**CASES[case])) < ALLOWED


def accept_first_child(tree, choose):
    """A wrong rule: the draft's favourite is taken without asking the target."""
    token_id = tree.token_ids[1]
    return Verification(path=(0, 1), accepted_ids=(token_id,), bonus_id=choose(1, (token_id,)))


def redraw_after_rejection(tree, choose):
    """A wrong rule: a rejected draw is replaced by a fresh one, as if the residual were the target's law."""
    node, path = 0, [0]
    accepted: list[int] = []
    while (child := tree.child(node, token := choose(node, accepted))) is not None:
        node = child
        path.append(child)
        accepted.append(token)
    return Verification(tuple(path), tuple(accepted), bonus_id=choose(node, accepted))


def ignore_the_accepted(tree, choose):
    """A wrong rule: the target is asked as if nothing had been accepted yet."""
    return verify(tree, lambda node, _accepted: choose(node, ()))


@pytest.mark.parametrize("rule", [accept_first_child, redraw_after_rejection, ignore_the_accepted])
def test_biased_rules_are_caught(rule):
    """Negative control: 4,000 runs of each wrong rule are further off than 4,000 honest runs, and than R23 allows."""
    runs = 4000
    law = direct_law(**CASES["plain"])
    honest, _ = emitted_counts(verify, runs, **CASES["plain"])
    wrong, _ = emitted_counts(rule, runs, **CASES["plain"])
    assert total_variation(honest, law) < 0.06
    assert total_variation(wrong, law) > 0.06 + ALLOWED

"""Cuts on large vocabularies: the quick way gives what a full sort gives."""

from __future__ import annotations

import pytest
import torch

from eagle3.sampling.params import sampling_params
from eagle3.sampling.support import nucleus, support

VOCAB = 9_000


def scores(spread, seed=0, *, steps=None):
    """Scores below 0; `steps` rounds them, so that many are equal."""
    values = torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed)) * spread
    values = values if steps is None else (values * steps).round() / steps
    return values - values.max()


@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("spread", [0.01, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("steps", [None, 2])
def test_the_quick_nucleus_is_the_sorted_one(top_p, spread, steps):
    """Small and large nuclei, with and without equal scores at the cut."""
    values = scores(spread, steps=steps)
    expected = nucleus(values, top_p, candidates=VOCAB)
    for candidates in (1, 8, 64, 1024):
        assert torch.equal(nucleus(values, top_p, candidates=candidates), expected)
    probs = values.softmax(-1, dtype=torch.float64)
    assert probs[expected].sum() >= top_p - 1e-9
    assert probs[expected].sum() - probs[expected].min() < top_p + 1e-9


def test_cuts_leave_masked_tokens_out():
    """A grammar's -inf never comes back, however wide the cuts are."""
    values = scores(2.0).index_fill(0, torch.arange(3, VOCAB), float("-inf"))
    for cuts in ({"top_k": 50}, {"top_p": 0.9999}, {"min_p": 1e-9}, {"top_k": 50, "top_p": 0.9999, "min_p": 1e-9}):
        left = support(values, sampling_params(temperature=1.0, **cuts))
        ids = torch.arange(VOCAB) if left.ids_S is None else left.ids_S
        assert set(ids[left.probabilities() > 0].tolist()) <= {0, 1, 2}
        assert float(left.probabilities().sum()) == pytest.approx(1.0)


def test_ids_and_scores_stay_together():
    """After all cuts each id still has its own score."""
    values = scores(3.0, seed=4)
    left = support(values, sampling_params(temperature=0.5, top_k=200, top_p=0.8, min_p=0.001))
    assert left.ids_S is not None
    assert 1 < len(left.ids_S) < 200
    torch.testing.assert_close(left.scores_S, values[left.ids_S] / 0.5)
    assert left.ids_S.tolist() == sorted(left.ids_S.tolist())

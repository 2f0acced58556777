"""Guessed chains: what they expect of themselves, and what they must not hold."""

from __future__ import annotations

import math

import pytest

from eagle3.tree.chain import Chain


def test_expected_tokens_are_the_sum_over_paths():
    """With 1/2, then 1/2, then certainty: 1/2 + 1/4 + 1/4 of a token."""
    half = math.log(0.5)
    assert Chain((1, 2, 3), (half, half, 0.0)).expected_accepted == pytest.approx(1.0)
    assert Chain((1, 2), (0.0, 0.0)).expected_accepted == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("token_ids", "log_probs", "message"),
    [((1, 2), (0.0,), "one log-probability"), ((), (), "one log-probability"), ((1,), (0.1,), "at most 1")],
)
def test_what_is_no_chain_is_refused(token_ids, log_probs, message):
    """Tokens and probabilities pair up, there is at least one, and none is above certainty."""
    with pytest.raises(AssertionError, match=message):
        Chain(token_ids, log_probs)

"""How sure a guess is, and what is learnt from texts that go on as they did, or otherwise."""

from __future__ import annotations

import math

import pytest

from eagle3.config.speculation import Speculation
from eagle3.draft.suffix_drafter import HitRates, SuffixDrafter

SHAPE = Speculation(drafters=("eagle3", "suffix"), depth=5, suffix_min_match=2, suffix_tokens=8)
ROUND = [place % 7 for place in range(400)]


def probabilities(chain):
    return [math.exp(log_prob) for log_prob in chain.log_probs]


def test_longer_matches_are_thought_surer():
    """Before anything is seen a longer match never counts for less, and no guess is certain or hopeless."""
    rates = HitRates()
    thought = [rates.probability(length) for length in range(1, 100)]
    assert thought == sorted(thought)
    assert 0 < thought[0] < thought[-1] < 1


@pytest.mark.parametrize("hit", [True, False])
def test_what_is_seen_outweighs_what_was_thought(hit):
    """A hundred guesses that came true, or did not, decide about matches of their length and of no other."""
    rates = HitRates()
    other = rates.probability(3)
    for _ in range(100):
        rates.observe(2, hit=hit)
    assert rates.probability(2) == pytest.approx(float(hit), abs=0.07)
    assert rates.probability(3) == other


def test_rates_follow_a_change_of_texts():
    """After very many hits some thousand misses still tell: old guesses fade."""
    rates = HitRates()
    for _ in range(100_000):
        rates.observe(4, hit=True)
    assert rates.probability(4) > 0.99
    for _ in range(3000):
        rates.observe(4, hit=False)
    assert rates.probability(4) < 0.1


def test_an_answer_has_rates_of_its_own_over_those_of_all():
    """What one answer shows counts for it at once and for others a little; a new answer starts from all of them."""
    everyone = HitRates()
    one, other = HitRates(everyone), HitRates(everyone)
    before = other.probability(2)
    for _ in range(30):
        one.observe(2, hit=True)
    assert one.probability(2) > other.probability(2) > before
    assert HitRates(everyone).probability(2) == other.probability(2)


def test_a_guess_goes_as_far_as_it_is_likely():
    """A chain ends at the limits, and where its path is less likely than a row of the target is worth."""
    state = SuffixDrafter(SHAPE).begin(400)
    assert len(state.propose(ROUND, limit=50)) == 8
    assert len(state.propose(ROUND, limit=3)) == 3
    shy = SuffixDrafter(SHAPE).begin(0)
    # 1 2 is followed by something else every time, so a match of two is worth less and less.
    text = [token for other in range(10, 200) for token in (1, 2, other)]
    chain = shy.propose([*text, 1, 2], limit=50)
    assert chain is None or math.prod(probabilities(chain)) >= 0.05


def test_below_the_shortest_match_nothing_is_guessed():
    """One repeated token is no match of two; two are."""
    drafter = SuffixDrafter(SHAPE)
    assert drafter.begin(5).propose([1, 2, 3, 9, 2], limit=9) is None
    assert drafter.begin(6).propose([1, 2, 3, 9, 1, 2], limit=9).token_ids[0] == 3
    assert drafter.begin(0).propose([], limit=9) is None


def test_prompts_teach_nothing():
    """A prompt is nobody's guess: only tokens of the answer are counted."""
    read, answered = SuffixDrafter(SHAPE), SuffixDrafter(SHAPE)
    read.begin(len(ROUND)).propose(ROUND, limit=8)
    answered.begin(0).propose(ROUND, limit=8)
    after = ROUND[:14]
    untaught = SuffixDrafter(SHAPE).begin(14).propose(after, limit=8)
    assert read.begin(14).propose(after, limit=8) == untaught
    assert math.prod(probabilities(answered.begin(14).propose(after, limit=8))) > math.prod(probabilities(untaught))


def test_a_sure_guess_makes_the_draft_needless():
    """Once more tokens are expected of a chain than the draft has levels, the draft need not be asked."""
    state = SuffixDrafter(SHAPE).begin(0)
    short = state.propose(ROUND[:9], limit=8)
    assert not state.suffices(short)
    assert state.suffices(state.propose(ROUND, limit=8))
    assert not state.suffices(state.propose(ROUND, limit=4))

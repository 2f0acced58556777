"""Laws of the suffix automaton and of the guesses made with it, against plain search through the text."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3.config.speculation import Speculation
from eagle3.draft.suffix_automaton import SuffixAutomaton
from eagle3.draft.suffix_drafter import SuffixDrafter

# Few letters, so that repetitions are long, nested and overlapping.
texts = st.integers(1, 4).flatmap(lambda letters: st.lists(st.integers(0, letters - 1), max_size=60))
thorough = settings(deadline=None, max_examples=300)


def earlier_ends(text, ending):
    """Where `ending` ends in `text`, but for its very end."""
    size = len(ending)
    return [end for end in range(size - 1, len(text) - 1) if text[end - size + 1 : end + 1] == ending]


def longest_match(text):
    return max((size for size in range(1, len(text)) if earlier_ends(text, text[-size:])), default=0)


@thorough
@given(text=texts)
def test_the_match_is_the_longest_that_search_finds(text):
    """After every token: no longer ending occurred before, this one did, and it ended where it is said to."""
    automaton = SuffixAutomaton()
    for place, token_id in enumerate(text):
        automaton.extend(token_id)
        seen = text[: place + 1]
        length = longest_match(seen)
        assert automaton.match_length == length
        if length:
            assert automaton.match_end in earlier_ends(seen, seen[-length:])
        else:
            assert automaton.match_end == -1
    assert len(automaton) == len(text)
    automaton.check_integrity()


@thorough
@given(text=texts, count=st.integers(0, 90))
def test_the_continuation_is_what_followed(text, count):
    """It is as long as asked for, and each of its tokens follows the text after the match, or itself."""
    automaton = SuffixAutomaton(text)
    found = automaton.continuation(count)
    if not automaton.match_length:
        assert found == []
        return
    assert len(found) == count
    whole = [*text, *found]
    assert all(token_id == whole[automaton.match_end + 1 + place] for place, token_id in enumerate(found))


@thorough
@given(
    text=texts,
    num_prompt=st.integers(0, 60),
    cuts=st.sets(st.integers(0, 60)),
    limit=st.integers(1, 40),
    shape=st.builds(
        Speculation, suffix_min_match=st.integers(1, 6), suffix_tokens=st.integers(1, 32), depth=st.integers(1, 8)
    ),
)
def test_a_guess_follows_from_the_text_alone(text, num_prompt, cuts, limit, shape):
    """However often a sequence was asked before, and in whatever pieces its tokens came, the guess is the same.

    It is the continuation of the longest match, no longer than allowed, and there is none below the shortest match.
    """
    drafter, other = SuffixDrafter(shape), SuffixDrafter(shape)
    piecewise, at_once = drafter.begin(num_prompt), other.begin(num_prompt)
    for cut in sorted(cut for cut in cuts if cut <= len(text)):
        piecewise.propose(text[:cut], limit=limit)
    chain = piecewise.propose(text, limit=limit)
    assert chain == at_once.propose(text, limit=limit)
    length = longest_match(text)
    if length < shape.suffix_min_match:
        assert chain is None
    if chain is None:
        return
    assert len(chain) <= min(limit, shape.suffix_tokens)
    assert list(chain.token_ids) == SuffixAutomaton(text).continuation(len(chain))
    assert all(-math.inf < log_prob <= 0 for log_prob in chain.log_probs)
    assert 0 < chain.expected_accepted <= len(chain)

"""The longest repeated ending of a text, by hand; the laws are in tests/property/test_suffix_law.py."""

from __future__ import annotations

import time

import pytest

from eagle3.draft.suffix_automaton import SuffixAutomaton


def test_nothing_is_repeated_in_a_new_text():
    """No text, one token, and tokens that are all new have no match and no continuation."""
    for text in ([], [5], [1, 2, 3, 4]):
        automaton = SuffixAutomaton(text)
        assert (automaton.match_length, automaton.match_end) == (0, -1)
        assert automaton.continuation(3) == []
        automaton.check_integrity()


def test_the_longest_repetition_goes_on():
    """After 1 2 3 4 9 1 2 3 the match is 1 2 3, and 4 9 1 followed it."""
    automaton = SuffixAutomaton([1, 2, 3, 4, 9, 1, 2, 3])
    assert (automaton.match_length, automaton.match_end) == (3, 2)
    assert automaton.continuation(3) == [4, 9, 1]
    automaton.extend(4)
    assert (automaton.match_length, automaton.match_end) == (4, 3)
    automaton.extend(7)
    assert automaton.match_length == 0


def test_of_two_places_the_later_is_followed():
    """1 2 was followed by 3, then by 4: what came last is taken to come again."""
    automaton = SuffixAutomaton([1, 2, 3, 8, 1, 2, 4, 7, 1, 2])
    assert (automaton.match_length, automaton.match_end) == (2, 5)
    assert automaton.continuation(2) == [4, 7]


@pytest.mark.parametrize("period", [1, 2, 3])
def test_a_text_that_goes_round_goes_on_going_round(period):
    """The continuation does not end where the text does: the repetition is taken to repeat itself."""
    text = [place % period for place in range(20)]
    automaton = SuffixAutomaton(text)
    assert automaton.match_length >= 20 - 2 * period
    assert automaton.continuation(9) == [(20 + place) % period for place in range(9)]


def test_a_token_costs_microseconds_however_long_the_text():
    """The worst texts, all alike and all different among them, take far below 50 microseconds a token throughout."""
    size = 20_000
    for text in ([7] * size, list(range(size)), [place % 2 for place in range(size)], [0, 0, 1] * (size // 3)):
        began = time.process_time()
        automaton = SuffixAutomaton(text)
        assert (time.process_time() - began) / size < 50e-6
        automaton.check_integrity()

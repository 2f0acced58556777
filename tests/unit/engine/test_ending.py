"""Where an answer ends, token by token and inside a block."""

from __future__ import annotations

import pytest

from builders import ByteTokenizer
from eagle3.engine.detokenizer import Detokenizer
from eagle3.engine.ending import Ending

EOS = 300


def ending(stop=(), max_tokens=100, ending_ids=(EOS,)):
    return Ending(
        ending_ids=frozenset(ending_ids),
        stop=stop,
        max_tokens=max_tokens,
        detokenizer=Detokenizer(ByteTokenizer().decode),
    )


def test_runs_on_without_a_reason_to_stop():
    """Tokens that end nothing are all taken, and their text is certain at once."""
    answer = ending()
    assert answer.feed(b"ab") == (2, "ab")
    assert answer.feed(b"c") == (1, "c")
    assert answer.finish_reason is None
    assert answer.remaining == 97


def test_end_of_text_inside_a_block():
    """R14: what follows an end-of-text token in its block is dropped; the token counts, its text does not."""
    answer = ending()
    assert answer.feed([*b"ab", EOS, *b"cd"]) == (3, "ab")
    assert answer.token_ids == [*b"ab", EOS]
    assert (answer.text, answer.finish_reason) == ("ab", "stop")


def test_stop_token_with_text_is_not_part_of_the_text():
    """A stop token ends the text before itself, though it could be decoded."""
    answer = ending(ending_ids=[ord("!")])
    assert answer.feed(b"ab!c") == (3, "ab")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_length_inside_a_block(limit):
    """No token beyond the limit is taken."""
    answer = ending(max_tokens=limit)
    assert answer.feed(b"abcd") == (limit, "abcd"[:limit])
    assert answer.finish_reason == "length"
    assert answer.remaining == 0


def test_end_of_text_as_the_last_allowed_token_is_a_stop():
    """An end-of-text token at the limit ends by itself, not by length."""
    answer = ending(max_tokens=2)
    answer.feed([*b"a", EOS])
    assert answer.finish_reason == "stop"


def test_nothing_is_taken_after_the_end():
    """A finished answer takes no more tokens."""
    answer = ending(max_tokens=1)
    answer.feed(b"a")
    assert answer.feed(b"b") == (0, "")
    assert answer.text == "a"


def test_stop_string_across_tokens_and_blocks():
    """A stop string may begin in one block and end in the next; none of it is ever released."""
    answer = ending(stop=["STOP"])
    assert answer.feed(b"xS") == (2, "x")
    assert answer.feed(b"TO") == (2, "")
    assert answer.feed(b"Pyz") == (1, "")
    assert (answer.text, answer.finish_reason) == ("x", "stop")
    assert bytes(answer.token_ids) == b"xSTOP"


def test_beginning_of_a_stop_string_is_released_once_it_is_none():
    """Held-back text comes out as soon as it cannot become a stop string."""
    answer = ending(stop=["STOP"])
    assert answer.feed(b"STO")[1] == ""
    assert answer.feed(b"R")[1] == "STOR"


def test_beginning_of_a_stop_string_is_released_at_the_end():
    """Text held back when the answer ends by length or end-of-text belongs to it."""
    by_length = ending(stop=["STOP"], max_tokens=3)
    assert by_length.feed(b"aSTO") == (3, "aST")
    by_token = ending(stop=["STOP"])
    assert by_token.feed([*b"aST", EOS]) == (4, "aST")


def test_stop_string_that_overlaps_itself():
    """`aab` is found in `aaab`: holding back must not lose a later beginning."""
    answer = ending(stop=["aab"])
    answer.feed(b"aaab")
    assert (answer.text, answer.finish_reason) == ("a", "stop")


def test_first_of_several_stop_strings():
    """Of stop strings that are complete, the one that begins first cuts."""
    answer = ending(stop=["c", "bc"])
    answer.feed(b"abcd")
    assert answer.text == "a"


def test_stop_string_completed_by_the_last_allowed_token_is_a_stop():
    """A stop string complete at the limit counts as a stop, and is cut off."""
    answer = ending(stop=["bc"], max_tokens=3)
    answer.feed(b"abc")
    assert (answer.text, answer.finish_reason) == ("a", "stop")


def test_half_a_character_at_the_end_becomes_a_replacement():
    """Bytes that never became a character are shown as U+FFFD when the answer ends."""
    answer = ending(max_tokens=2)
    answer.feed([ord("a"), 0xC3])
    assert answer.text == "a\ufffd"


def test_stop_string_made_of_the_flushed_text():
    """A stop string may match text that only the flush made certain."""
    answer = ending(stop=["\ufffd"])
    answer.feed([ord("a"), 0xC3, EOS])
    assert (answer.text, answer.finish_reason) == ("a", "stop")

"""Text piece by piece, never half a character."""

from __future__ import annotations

from builders import ByteTokenizer
from eagle3.engine.detokenizer import Detokenizer


def pieces(data, decode=None):
    detokenizer = Detokenizer(decode or ByteTokenizer().decode)
    return [*(detokenizer.add(token) for token in data), detokenizer.flush()]


def test_characters_come_whole():
    """The bytes of a character give nothing until the last one."""
    assert pieces("é€😀".encode()) == ["", "é", "", "", "€", "", "", "", "😀", ""]


def test_half_a_character_comes_with_the_flush_only():
    """An unfinished character is a replacement character, at the end."""
    assert pieces([ord("a"), 0xF0, 0x9F]) == ["a", "", "", "\ufffd"]


def test_broken_bytes_come_with_the_next_character():
    """Bytes that cannot become a character are released once something certain follows."""
    assert pieces([0xFF, ord("a")]) == ["", "\ufffda", ""]


def test_special_tokens_have_no_text():
    """A token without text gives nothing, and does not disturb what follows."""
    assert pieces([ord("a"), 300, 300, ord("b"), 300]) == ["a", "", "", "b", "", ""]


def test_leading_space_that_the_decoder_strips_at_the_start():
    """Decoders that drop a space at the very beginning (SentencePiece) keep it between words."""
    words = {1: " Hello", 2: " world", 3: "!"}

    def decode(ids):
        return "".join(words[i] for i in ids).removeprefix(" ")

    assert pieces([1, 2, 3], decode) == ["Hello", " world", "!", ""]


def test_flush_twice_gives_nothing_new():
    """A second flush has nothing left."""
    detokenizer = Detokenizer(ByteTokenizer().decode)
    detokenizer.add(0xC3)
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""

"""Laws of streaming text: nothing lost, nothing broken, stop strings as in the whole text."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import ByteTokenizer
from eagle3.engine.detokenizer import Detokenizer
from eagle3.engine.ending import Ending

decode = ByteTokenizer().decode
EOS = 256
quick = settings(deadline=None, max_examples=150)
# Characters of one to four bytes, combining ones and the replacement character itself.
texts = st.text(
    alphabet=st.sampled_from("ab é€😀\u0301\ufffd\n") | st.characters(exclude_categories=["Cs"]), max_size=20
)


@quick
@given(text=texts, specials=st.lists(st.integers(0, 60), max_size=5))
def test_pieces_of_text_are_whole_characters(text, specials):
    """For any Unicode text, byte by byte, with special tokens anywhere: pieces add up, and none is broken."""
    ids = list(text.encode())
    for place in specials:
        ids.insert(min(place, len(ids)), 300)
    detokenizer = Detokenizer(decode)
    # A special token inside a character's bytes has no text, so the bytes around it still make one.
    pieces = [*map(detokenizer.add, ids), detokenizer.flush()]
    assert "".join(pieces) == decode(ids) == text
    assert all(piece in text for piece in pieces)
    assert not any(piece.endswith("\ufffd") for piece in pieces[:-1])


@quick
@given(ids=st.lists(st.integers(0, 258) | st.sampled_from([0xC3, 0xA9, 0xE2, 0x82, 0xF0, 0x9F, 0xFF, 65]), max_size=30))
def test_pieces_of_any_bytes_add_up(ids):
    """For any bytes, UTF-8 or not, the pieces put together are the decoded whole."""
    detokenizer = Detokenizer(decode)
    pieces = [*map(detokenizer.add, ids), detokenizer.flush()]
    assert "".join(pieces) == decode(ids)
    assert not any(piece.endswith("\ufffd") for piece in pieces[:-1])


def certain(ids):
    """Text that tokens make certain: all of it, but for replacement characters at its end."""
    text = decode(ids)
    # Characters come out with the token that completes them; a trailing U+FFFD waits, with what came with it.
    while text.endswith("\ufffd"):
        ids = ids[:-1]
        text = decode(ids)
    return text


def naive_ending(ids, stop, max_tokens):
    """Tokens, text and reason by looking at the whole text after every token."""
    for end in range(1, len(ids) + 1):
        taken, last = ids[:end], ids[end - 1] == EOS or end == max_tokens
        text = decode(taken) if last else certain(taken)
        found = [place for one in stop if (place := text.find(one)) >= 0]
        if found:
            return taken, text[: min(found)], "stop"
        if last:
            return taken, text, "stop" if ids[end - 1] == EOS else "length"
    return ids, None, None


# Two letters make matches, overlaps and near misses common.
stop_strings = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=3)
token_ids = st.lists(st.sampled_from([*b"ababab", *"é".encode(), EOS]), min_size=1, max_size=25)


@quick
@given(ids=token_ids, stop=stop_strings, max_tokens=st.integers(1, 30), cuts=st.sets(st.integers(1, 24)))
def test_ending_is_what_the_whole_text_says(ids, stop, max_tokens, cuts):
    """In blocks of any size, the answer is that of a search of the whole text, and nothing released is taken back."""
    ending = Ending(ending_ids=frozenset([EOS]), stop=stop, max_tokens=max_tokens, detokenizer=Detokenizer(decode))
    released, fed = "", 0
    edges = [0, *sorted(cut for cut in cuts if cut < len(ids)), len(ids)]
    for begin, end in itertools.pairwise(edges):
        taken, text = ending.feed(ids[begin:end])
        released += text
        fed += taken
        assert ending.text == released
        if ending.finish_reason is not None:
            break
    taken_ids, text, reason = naive_ending(ids, stop, max_tokens)
    assert ending.token_ids == taken_ids
    assert fed == len(taken_ids)
    assert ending.finish_reason == reason
    if reason is not None:
        assert ending.text == text
    else:
        assert certain(ids).startswith(released)
        held = certain(ids)[len(released) :]
        assert not held or any(one.startswith(held) for one in stop), "no more is held back than may be a stop string"

"""Answers are put together from chunks, however they come, and are never taken for whole when they are not."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask_doubles import CHUNKS, STREAM, TEXTS, USAGE, chunk, event, whole
from eagle3.errors import (
    ConfigError,
    DeadlineError,
    EngineUnavailableError,
    InvalidInputError,
    OverloadedError,
)
from eagle3.ops.ask.answer import AnswerReader
from eagle3.ops.ask.event_lines import json_objects
from eagle3.ops.ask.refusal import error_message, refusal

EVENTS = "text/event-stream; charset=utf-8"


class Clock:
    """Half a second later at each look."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        self.now_s += 0.5
        return self.now_s


def read(items, *, timeout_s=100.0):
    reader = AnswerReader(clock=Clock(), timeout_s=timeout_s)
    texts = [reader.take(item) for item in items]
    return texts, reader


def test_a_stream_adds_up():
    """Texts come as they are taken; the answer has all of them, the reason, the model, usage and rates."""
    texts, reader = read(CHUNKS)
    answer = reader.finish()
    assert texts == [*TEXTS, "", ""]
    assert (answer.text, answer.finish_reason, answer.model) == ("".join(TEXTS), "stop", "tiny")
    assert answer.usage == USAGE
    # Looks at the clock: start, one for each item, one more at the first text, one at the end.
    assert (answer.first_text_s, answer.duration_s) == (1.0, 3.5)
    assert answer.tokens_per_second == pytest.approx(6 / 3.5)
    assert json.loads(json.dumps(answer.as_json()))["first_text_ms"] == 1000.0
    assert answer.summary() == (
        "7 prompt tokens, 6 tokens, 1.7 tokens/s, first text after 1000 ms, 3500 ms in all, ended by stop"
    )


def test_drafted_tokens_are_told():
    """What speculation brought is in the summary where the server says it."""
    usage = USAGE | {"completion_tokens_details": {"accepted_prediction_tokens": 4}}
    _, reader = read([*CHUNKS[:-1], chunk(usage=usage)])
    assert "6 tokens, 4 of them drafted" in reader.finish().summary()


def test_a_whole_completion_and_an_empty_one():
    """One object does; a text of none has no time of its own, and rates need a count."""
    texts, reader = read([whole("All of it.")])
    assert texts == ["All of it."]
    assert reader.finish().text == "All of it."
    _, reader = read([chunk(finish="length")])
    answer = reader.finish()
    assert (answer.text, answer.first_text_s, answer.tokens_per_second, answer.usage) == ("", None, None, None)


@pytest.mark.parametrize(("items", "words"), [(CHUNKS[:2], "text is incomplete"), ([], "without any text")])
def test_an_answer_that_did_not_end(items, words):
    """Without a reason to end there is no answer, and the error says what of the text came."""
    _, reader = read(items)
    with pytest.raises(EngineUnavailableError, match=words):
        reader.finish()


def test_too_late():
    """A stream that goes on beyond the time is ended; one within it is not."""
    with pytest.raises(DeadlineError, match=r"longer than 2 s: the text is incomplete.*--timeout-s"):
        read(CHUNKS, timeout_s=2.0)
    read(CHUNKS, timeout_s=3.0)


def test_an_error_within_the_stream():
    """The server's word is kept, with what kind of fault it is, and that the text is incomplete."""
    failed = {"error": {"message": "engine crashed", "type": "server_error", "param": None, "code": None}}
    with pytest.raises(EngineUnavailableError, match="text is incomplete: engine crashed"):
        read([*CHUNKS[:1], failed])
    late = {"error": {"message": "took too long", "type": "server_error", "code": "deadline_exceeded"}}
    with pytest.raises(DeadlineError):
        read([late])


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_parts_may_be_cut_anywhere(cuts):
    """However the bytes are divided, the objects are the same."""
    places = [0, *sorted(cuts), len(STREAM)]
    parts = [STREAM[start:end] for start, end in pairwise(places)]
    assert list(json_objects(parts, content_type=EVENTS)) == CHUNKS


def test_objects_come_as_soon_as_they_are_whole():
    """The first object is given out before the second part is asked for."""

    def parts():
        yield event(CHUNKS[0])
        raise AssertionError("asked for more")

    assert next(json_objects(parts(), content_type=EVENTS)) == CHUNKS[0]


def test_other_forms():
    """JSON lines without a last line end, comments and other fields of events, a whole body on several lines."""
    lines = b"\n".join(json.dumps(item).encode() for item in CHUNKS)
    assert list(json_objects([lines], content_type="application/jsonlines")) == CHUNKS
    kept = b": ping\r\nevent: x\r\nid: 1\r\nretry: 3\r\n" + event(CHUNKS[0]).replace(b"\n", b"\r\n")
    assert list(json_objects([kept], content_type=EVENTS)) == CHUNKS[:1]
    spread = json.dumps(whole("x"), indent=2).encode()
    assert list(json_objects([spread[:9], spread[9:]], content_type="application/json")) == [whole("x")]


def test_a_last_line_that_was_cut_is_left_out():
    """Half of an object is no fault of its own: the answer is incomplete, which its reader says."""
    cut = STREAM[: len(event(CHUNKS[0])) + 20]
    assert list(json_objects([cut], content_type=EVENTS)) == CHUNKS[:1]


@pytest.mark.parametrize(
    ("body", "kind"), [(b"data: nonsense\n\n", EVENTS), (b"<html>", "application/json"), (b"[1]", "application/json")]
)
def test_what_is_no_object(body, kind):
    """Another kind of server is told apart, and what it said is shown."""
    with pytest.raises(EngineUnavailableError, match="the answer is"):
        list(json_objects([body], content_type=kind))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInputError), (404, InvalidInputError), (413, InvalidInputError), (401, ConfigError),
        (403, ConfigError), (408, DeadlineError), (504, DeadlineError), (429, OverloadedError),
        (500, EngineUnavailableError), (503, EngineUnavailableError),
    ],
)  # fmt: skip
def test_statuses(status, kind):
    """Each status is the error whose exit code fits, with the server's message and the status."""
    error = refusal(status, {"message": "because of this"})
    assert type(error) is kind
    assert "because of this" in str(error)
    assert str(status) in str(error)


def test_when_to_come_back():
    """Retry-After is kept; a date or nothing is one second."""
    for text, waits in (("17", 17), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), (None, 1)):
        error = refusal(429, "full", retry_after=text)
        assert isinstance(error, OverloadedError)
        assert error.retry_after_s == waits


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ('{"error": {"message": "deep"}}', "deep"),
        ({"detail": "FastAPI's"}, "FastAPI's"),
        ({"message": ["a", 1]}, '["a", 1]'),
        ("two\nlines", "two lines"),
        ("<html><p>504</p></html>", "a web page and no message; is the address that of the API?"),
        ("", "no message"),
        (None, "no message"),
        ("x" * 5000, "x" * 600),
    ],
)
def test_messages(error, shown):
    """The words of an error body, whatever its shape, in one line of bounded size."""
    assert error_message(error) == shown

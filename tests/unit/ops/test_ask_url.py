"""Asking a server of OpenAI's API: hand-written bytes on a real socket, read by OpenAI's client."""

from __future__ import annotations

import json
import socket
import sys

import pytest

from ask_doubles import CHUNKS, STREAM, HandWrittenServer, event, whole
from eagle3.errors import (
    ConfigError,
    DeadlineError,
    EngineUnavailableError,
    InvalidInputError,
    OverloadedError,
)
from eagle3.ops.ask.answer import AnswerReader
from eagle3.ops.ask.question import Question
from eagle3.ops.ask.url import api_key, ask_url, base_url

HI = Question(prompt="Hi", max_tokens=9)
SSE = {"content_type": "text/event-stream"}


def ask(server, question=HI, **options):
    return list(ask_url(server.url, question, **({"key": None, "timeout_s": 20.0} | options)))


def error_body(message):
    return json.dumps({"error": {"message": message, "type": "x", "param": None, "code": None}}).encode()


def text_of(objects):
    reader = AnswerReader(clock=lambda: 0.0, timeout_s=1.0)
    texts = [reader.take(item) for item in objects]
    return "".join(texts), reader


def test_a_stream():
    """The server's objects, for a question that names the only model; the key goes along."""
    with HandWrittenServer([STREAM], **SSE) as server:
        objects = ask(server, key="secret")
        (sent,) = server.requests
    text, reader = text_of(objects)
    assert (text, reader.finish().text) == ("Mercury, Venus and Mars.",) * 2
    assert sent["path"] == "/v1/chat/completions"
    assert sent["body"] == HI.body() | {"model": "tiny"}
    assert sent["headers"]["authorization"] == "Bearer secret"


def test_a_whole_answer():
    """Without a stream one object comes."""
    with HandWrittenServer([json.dumps(whole("x")).encode()], content_type="application/json") as server:
        assert text_of(ask(server, Question(prompt="Hi", stream=False)))[0] == "x"


@pytest.mark.parametrize("models", [[], ["a", "b"]])
def test_which_model(models):
    """None or several are named and left to the asker; a named one is not looked up."""
    with HandWrittenServer([STREAM], **SSE) as server:
        server.models = models
        with pytest.raises(InvalidInputError, match="--model"):
            ask(server)
        assert server.requests == []
        ask(server, Question(prompt="Hi", model="b"))
        assert server.requests[0]["body"]["model"] == "b"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InvalidInputError), (401, ConfigError), (429, OverloadedError), (503, EngineUnavailableError)],
)
def test_refusals(status, kind):
    """The server's message in the error that fits its status; asked once."""
    headers = {"content_type": "application/json", "Retry_After": "9"}
    with HandWrittenServer([error_body("because of this")], status=status, **headers) as server:
        with pytest.raises(kind, match="because of this") as caught:
            ask(server)
        assert len(server.requests) == 1
    if isinstance(caught.value, OverloadedError):
        assert caught.value.retry_after_s == 9


def test_a_stream_that_is_cut():
    """A connection that ends in the middle: the error says that the text is incomplete."""
    with (
        HandWrittenServer([event(CHUNKS[0])], cut=True, **SSE) as server,
        pytest.raises(EngineUnavailableError, match="text is incomplete"),
    ):
        ask(server)
    with (
        HandWrittenServer([], cut=True, **SSE) as server,
        pytest.raises(EngineUnavailableError, match=r"cannot reach|broke"),
    ):
        ask(server)


def test_a_stream_that_stops_silently():
    """A stream that ends in good order, but before the answer did, is incomplete to its reader."""
    with HandWrittenServer([event(CHUNKS[0]), event(b"[DONE]")], **SSE) as server:
        _, reader = text_of(ask(server))
    with pytest.raises(EngineUnavailableError, match="text is incomplete"):
        reader.finish()


def test_an_error_within_the_stream():
    """The server's word between the pieces."""
    failed = event({"error": {"message": "engine crashed", "type": "server_error", "param": None, "code": None}})
    with (
        HandWrittenServer([event(CHUNKS[0]), failed], **SSE) as server,
        pytest.raises(EngineUnavailableError, match="text is incomplete: engine crashed"),
    ):
        ask(server)


def test_silence():
    """A server that takes the request and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(DeadlineError, match="--timeout-s"):
            list(ask_url(url, Question(prompt="Hi", model="m"), key=None, timeout_s=0.3))


def test_nobody_there():
    """A port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(EngineUnavailableError, match="is a server running there"):
        list(ask_url(f"http://127.0.0.1:{port}", HI, key=None, timeout_s=5.0))


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"data: nonsense\n\n"])
def test_another_kind_of_server(body):
    """A page that is no answer, for the list of models and for the completion itself."""
    with HandWrittenServer([body], content_type="text/event-stream") as server:
        server.models_body = b"<html>hello</html>"
        with pytest.raises(EngineUnavailableError, match="OpenAI's API"):
            ask(server)
        if body.startswith(b"data"):
            with pytest.raises(EngineUnavailableError, match="OpenAI's API"):
                ask(server, Question(prompt="Hi", model="m"))


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://h:8080", "http://h:8080/v1"),
        ("https://h/", "https://h/v1"),
        ("https://h/v1/", "https://h/v1"),
        ("https://h/other#x", "https://h/other"),
    ],
)
def test_addresses(given, used):
    """/v1 is added where there is no path."""
    assert base_url(given) == used


@pytest.mark.parametrize("url", ["", "h:8080", "ftp://h", "http://", "http://h:99999", "http://h:x", "http://h?a=b"])
def test_what_is_no_address(url):
    """It is refused before anything is sent."""
    with pytest.raises(InvalidInputError, match="--url"):
        base_url(url)


def test_keys():
    """The kit's own variable, then OpenAI's; an empty one is none."""
    assert api_key({"EAGLE3KIT_API_KEY": "a", "OPENAI_API_KEY": "b"}) == "a"
    assert api_key({"EAGLE3KIT_API_KEY": "", "OPENAI_API_KEY": "b"}) == "b"
    assert api_key({}) is None


def test_the_client_that_is_missing(monkeypatch):
    """OpenAI's client is an extra, which its absence names."""
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"eagle3-kit\[ask\]"):
        ask_url("http://h", HI, key=None, timeout_s=1.0)

"""A question's body and ranges."""

from __future__ import annotations

import pytest

from eagle3.errors import InvalidInputError
from eagle3.ops.ask.question import Question, checked_timeout
from eagle3.server.openai_requests import ChatRequest, validate

FULL = Question(
    prompt="Hi", system="Be brief.", model="m", max_tokens=5, temperature=0.0, top_p=0.5, seed=-1, stream=True
)


def test_only_what_was_chosen_is_in_the_body():
    """A bare question leaves every choice to the server; a full one says all of it."""
    assert Question(prompt="Hi", stream=False).body() == {"messages": [{"role": "user", "content": "Hi"}]}
    body = FULL.body()
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert {name: body[name] for name in ("model", "max_tokens", "temperature", "top_p", "seed")} == {
        "model": "m", "max_tokens": 5, "temperature": 0.0, "top_p": 0.5, "seed": -1,
    }  # fmt: skip


@pytest.mark.parametrize("question", [FULL, Question(prompt="Hi"), Question(prompt="Hi", stream=False)])
def test_the_server_takes_it(question):
    """Every body is one that our own server's schema accepts, usage in the stream included."""
    request = validate(ChatRequest, question.body() | {"model": "m"})
    assert bool(request.stream) is question.stream


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"prompt": " \n"}, "prompt"),
        ({"max_tokens": 0}, "--max-tokens"),
        ({"temperature": -0.1}, "--temperature"),
        ({"temperature": float("nan")}, "--temperature"),
        ({"top_p": 0.0}, "--top-p"),
        ({"top_p": 1.01}, "--top-p"),
        ({"seed": 2**63}, "--seed"),
    ],
)
def test_out_of_range(values, named):
    """What the server would refuse is refused before anything is sent, by the flag's name."""
    with pytest.raises(InvalidInputError, match=named):
        Question(**({"prompt": "Hi"} | values))


def test_ends_of_the_ranges():
    """The outermost values are taken."""
    Question(prompt="x", max_tokens=1, temperature=100.0, top_p=1.0, seed=2**63 - 1)
    assert checked_timeout(0.5) == 0.5


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_timeout_is_above_zero(timeout_s):
    """Neither no time nor endless time is a timeout."""
    with pytest.raises(InvalidInputError, match="--timeout-s"):
        checked_timeout(timeout_s)

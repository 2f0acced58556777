"""Laws of the routes: whatever is sent, the answer is a refusal or an answer, and the next request is served."""

from __future__ import annotations

import asyncio
import functools
import json

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3.server.openai_requests import ChatRequest, CompletionRequest
from protocol_doubles import MODEL, ScriptedGateway, protocol_app

quick = settings(deadline=None, max_examples=150)
PATHS = ["/v1/completions", "/v1/chat/completions", "/invocations", "/endpoints/a/invocations-response-stream"]
GOOD = {"model": MODEL, "prompt": "x"}

numbers = st.integers() | st.floats() | st.sampled_from([2**63, -(2**63), 10**400, -1, 0, 1e308])
scalars = (
    st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(["\x00", "user", "system", "text"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(["role", "content", "type", "text"]), inner, max_size=4)
    ),
    max_leaves=8,
)
fields = st.sampled_from(sorted({*CompletionRequest.model_fields, *ChatRequest.model_fields, "unknown"}))


@functools.cache
def app():
    """One app for all examples: what one leaves behind, the next one meets."""
    return protocol_app(ScriptedGateway("ab"))


def answer(path, content, headers=None):
    """Status and body of the response to some bytes, and whether the next request is served."""

    async def send():
        transport = httpx.ASGITransport(app())
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            response = await http.post(path, content=content, headers=headers or {"Content-Type": "application/json"})
            following = await http.post("/v1/completions", json=GOOD)
            return response, following

    return asyncio.run(asyncio.wait_for(send(), 20))


def check(path, content, headers=None):
    """The law."""
    response, following = answer(path, content, headers)
    assert response.status_code in (200, 400, 404, 406, 415, 424), response.text
    if response.status_code == 424:
        assert response.json()["OriginalStatusCode"] < 500
    elif response.status_code != 200:
        error = response.json()["error"]
        assert error["message"]
        assert len(response.content) < 10_000
    assert following.status_code == 200
    assert following.json()["choices"][0]["text"] == "ab"


@quick
@given(path=st.sampled_from(PATHS), content=st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_bytes(path, content):
    """Bytes of no meaning are refused."""
    check(path, content)


@quick
@given(path=st.sampled_from(PATHS), body=st.dictionaries(fields, values, max_size=4), chat=st.booleans())
def test_any_values_in_known_fields(path, body, chat):
    """A good request with any fields replaced by anything is answered or refused."""
    good = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]} if chat else GOOD
    check(path, json.dumps(good | body).encode())


@quick
@given(path=st.sampled_from(PATHS), body=st.dictionaries(fields, values, max_size=3), cut=st.integers(0, 60))
def test_broken_json(path, body, cut):
    """JSON that was cut off or has a byte too many is refused."""
    text = json.dumps(GOOD | body)
    check(path, text[: min(cut, len(text))].encode() + b"\xff")


@quick
@given(
    path=st.sampled_from(PATHS),
    name=st.sampled_from(
        ["Content-Type", "Accept", "X-Request-Id", "X-Request-Timeout-S", "X-Amzn-SageMaker-Custom-Attributes"]
    ),
    value=st.binary(max_size=20).filter(lambda value: not set(value) & set(b"\r\n\x00"))
    | st.sampled_from([b"speculate=", b"timeout-s=1e999", b";,;=", b"application/json;charset", b"q=0", b"*/*;q=x"]),
)
def test_any_headers(path, name, value):
    """Headers of no meaning are refused or left alone."""
    check(path, json.dumps(GOOD).encode(), {"Content-Type": "application/json", name: value})

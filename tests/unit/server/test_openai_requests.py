"""Fields of request bodies: what they turn into, and what is refused by which name."""

from __future__ import annotations

import json

import httpx
import pytest

from eagle3.config.limits import Limits
from protocol_doubles import CONTEXT_TOKENS, MODEL, VOCAB_SIZE, ScriptedGateway, protocol_app

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
RAW = {"model": MODEL, "prompt": "Hi"}


async def post(gateway, body, path=None, **headers):
    """The response to a body, given as values or as bytes."""
    path = path or ("/v1/chat/completions" if isinstance(body, dict) and "messages" in body else "/v1/completions")
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(protocol_app(gateway)), base_url="http://server"
    ) as http:
        return await http.post(path, content=content, headers={"Content-Type": "application/json"} | headers)


async def params_of(body):
    """The sampling parameters and the request that a body turns into."""
    gateway = ScriptedGateway(limits=Limits(max_output_tokens=100))
    response = await post(gateway, body)
    assert response.status_code == 200, response.text
    return gateway.asked[0].params, gateway.asked[0]


@pytest.mark.parametrize("base", [RAW, CHAT])
async def test_defaults_are_those_of_openai(base):
    """Nothing said means temperature 1, no penalties, one answer, no log-probabilities, and speculation."""
    params, request = await params_of(base)
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (1.0, 1.0, 0, 0.0)
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (0.0, 0.0, 1.0)
    assert (params.seed, params.stop, params.logprobs, params.json_schema) == (None, (), None, None)
    assert params.max_new_tokens == 100
    assert request.speculate


@pytest.mark.parametrize("base", [RAW, CHAT])
async def test_null_is_the_same_as_absent(base):
    """Every optional field may be null, as clients send that write out all of their fields."""
    from eagle3.server.openai_requests import ChatRequest, CompletionRequest

    kind = ChatRequest if "messages" in base else CompletionRequest
    nulls = {name: None for name, field in kind.model_fields.items() if not field.is_required()}
    assert await params_of(nulls | base) is not None
    assert (await params_of(nulls | base))[0] == (await params_of(base))[0]


@pytest.mark.parametrize("base", [RAW, CHAT])
@pytest.mark.parametrize(
    ("sent", "name", "value"),
    [
        ({"temperature": 0}, "temperature", 0.0),
        ({"top_p": 0.5}, "top_p", 0.5),
        ({"top_k": 7}, "top_k", 7),
        ({"top_k": -1}, "top_k", 0),
        ({"min_p": 0.1}, "min_p", 0.1),
        ({"seed": 2**63 - 1}, "seed", 2**63 - 1),
        ({"seed": -1}, "seed", 2**63 - 1),
        ({"seed": -(2**63)}, "seed", 0),
        ({"presence_penalty": -2}, "presence_penalty", -2.0),
        ({"frequency_penalty": 1.5}, "frequency_penalty", 1.5),
        ({"repetition_penalty": 1.3}, "repetition_penalty", 1.3),
        ({"logit_bias": {"5": -100, "7": 1.5}}, "logit_bias", {5: -100.0, 7: 1.5}),
        ({"logit_bias": {}}, "logit_bias", {}),
        ({"stop": "ab"}, "stop", ("ab",)),
        ({"stop": ["a", "\n\n"]}, "stop", ("a", "\n\n")),
        ({"stop": []}, "stop", ()),
        ({"stop_token_ids": [1, 2]}, "stop_token_ids", (1, 2)),
        ({"ignore_eos": True}, "ignore_eos", True),
        ({"min_tokens": 3}, "min_new_tokens", 3),
        ({"max_tokens": 9}, "max_new_tokens", 9),
        ({"response_format": {"type": "text"}}, "json_schema", None),
    ],
)
async def test_fields_reach_the_engine(base, sent, name, value):
    """Each field arrives as the parameter that it names."""
    params, _ = await params_of(base | sent)
    assert getattr(params, name) == value


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "a"}}, {"type": "object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {"type": "integer"}}},
            {"type": "integer"},
        ),
    ],
)
async def test_response_formats_become_schemas(wanted, schema):
    """A JSON answer is asked for by a schema; any object, if none is given."""
    params, _ = await params_of(CHAT | {"response_format": wanted})
    assert json.loads(params.json_schema) == schema


async def test_speculation_can_be_switched_off():
    """`speculate: false` is passed on."""
    assert not (await params_of(CHAT | {"speculate": False}))[1].speculate


async def test_names_of_the_token_limit_in_chats():
    """Both names of the limit mean the same; two values of it are refused."""
    assert (await params_of(CHAT | {"max_completion_tokens": 5}))[0].max_new_tokens == 5
    assert (await params_of(CHAT | {"max_completion_tokens": 5, "max_tokens": 5}))[0].max_new_tokens == 5
    response = await post(ScriptedGateway(), CHAT | {"max_completion_tokens": 5, "max_tokens": 6})
    assert response.status_code == 400


async def test_the_context_bounds_an_answer():
    """Without a limit an answer may fill the context; a limit beyond it is refused with the numbers."""
    gateway = ScriptedGateway()
    raw = RAW | {"prompt": "x" * 500}
    assert (await post(gateway, raw)).status_code == 200
    assert gateway.asked[0].params.max_new_tokens == CONTEXT_TOKENS - 500
    assert (await post(gateway, raw | {"max_tokens": 12})).status_code == 200
    refused = await post(gateway, raw | {"max_tokens": 13})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "max_tokens"
    assert "context is 512 tokens; prompt has 500 and max_tokens asks for 13, 513 together" in refused.text


async def test_fields_without_effect_are_accepted():
    """Fields of OpenAI's that cannot change the text are no reason to refuse."""
    harmless = {
        "user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto", "safety_identifier": "s",
        "prompt_cache_key": "k", "parallel_tool_calls": True, "tools": [], "tool_choice": "none",
        "modalities": ["text"], "prediction": {"type": "content", "content": "x"},
    }  # fmt: skip
    assert (await params_of(CHAT | harmless))[0] == (await params_of(CHAT))[0]


def turn(**fields):
    """A chat with one message of those fields."""
    return {"model": MODEL, "messages": [fields]}


REFUSED = [
    (RAW | {"best": 1}, "best", "not a field"),
    (RAW | {"prompt": ""}, "prompt", "empty"),
    (RAW | {"prompt": []}, "prompt", "not empty"),
    (RAW | {"prompt": [[]]}, "prompt", "not empty"),
    (RAW | {"prompt": ["a", ""]}, "prompt", "prompt.1 is empty"),
    (RAW | {"prompt": ["a", 1]}, "prompt", "list of texts"),
    (RAW | {"prompt": [True]}, "prompt", "list of token ids"),
    (RAW | {"prompt": {"a": 1}}, "prompt", "must be a text"),
    (RAW | {"prompt": [VOCAB_SIZE]}, "prompt", f"token id {VOCAB_SIZE} is outside the model's vocabulary, 0 to 259"),
    (RAW | {"prompt": [-1]}, "prompt", "token id -1"),
    (RAW | {"prompt": [10**400]}, "prompt", "outside the model's vocabulary"),
    (RAW | {"prompt": "a\x00b"}, "prompt", "control character U+0000 at character 1"),
    (RAW | {"prompt": ["a", "\x1b["]}, "prompt.1", "U+001B"),
    (RAW | {"prompt": "\x85"}, "prompt", "U+0085"),
    (RAW | {"stop": ["\x07"]}, "stop.0", "U+0007"),
    (RAW | {"stop": ""}, "stop", "1 to 1024 characters"),
    (RAW | {"stop": "x" * 1025}, "stop", "1 to 1024 characters"),
    (RAW | {"stop": ["x"] * 17}, "stop", "at most 16"),
    (RAW | {"stop": 1}, "stop", "string or a list"),
    (RAW | {"max_tokens": 0}, "max_tokens", "greater than or equal to 1; got 0"),
    (RAW | {"max_tokens": "5"}, "max_tokens", "valid integer"),
    (RAW | {"max_tokens": 5.5}, "max_tokens", "valid integer"),
    (RAW | {"max_tokens": True}, "max_tokens", "valid integer"),
    (RAW | {"stream": 1}, "stream", "valid boolean"),
    (RAW | {"temperature": -0.1}, "temperature", "greater than or equal to 0"),
    (RAW | {"temperature": 10**400}, "temperature", ""),
    (RAW | {"top_p": 0}, "top_p", "greater than 0"),
    (RAW | {"repetition_penalty": 0.0}, "repetition_penalty", "greater than 0"),
    (RAW | {"seed": 2**63}, "seed", "less than"),
    (RAW | {"logit_bias": {"a": 1}}, "logit_bias.a.[key]", "match pattern"),
    (RAW | {"logit_bias": {"1": 101}}, "logit_bias.1", "less than or equal to 100"),
    (RAW | {"logit_bias": {str(VOCAB_SIZE): 1}}, "logit_bias", "outside the model's vocabulary"),
    (RAW | {"logit_bias": {"1": 1, "01": 2}}, "logit_bias", "twice"),
    (RAW | {"stop_token_ids": [VOCAB_SIZE]}, "stop_token_ids", "outside the model's vocabulary"),
    (RAW | {"min_tokens": 9, "max_tokens": 8}, "min_tokens", "min_tokens is 9, more than the 8"),
    (RAW | {"stream_options": {"include_usage": True}}, "stream_options", "only allowed with stream"),
    (RAW | {"best_of": 2}, "best_of", "best_of is 2 and n is 1"),
    (RAW | {"echo": True, "logprobs": 1}, "echo", "echo with logprobs"),
    (RAW | {"suffix": "x"}, "suffix", ""),
    (RAW | {"logprobs": 21}, "logprobs", "less than or equal to 20"),
    (RAW | {"n": 17}, "n", "n is 17; at most 16"),
    (RAW | {"prompt": ["x"] * 321}, None, "321 answers (321 prompts, n = 1); the server takes on at most 320"),
    (RAW | {"response_format": {"type": "xml"}}, "response_format", ""),
    (RAW | {"response_format": {"type": "json_schema"}}, "response_format.json_schema.json_schema", "required"),
    ({"prompt": "x"}, "model", "model is required"),
    ({"model": MODEL}, "prompt", "is required"),
    (CHAT | {"messages": []}, "messages", "at least 1 item"),
    (CHAT | {"tools": [{"type": "function"}]}, "tools", "at most 0 items"),
    (CHAT | {"functions": [{}]}, "functions", "at most 0 items"),
    (CHAT | {"tool_choice": "required"}, "tool_choice", "'none' or 'auto'"),
    (CHAT | {"modalities": ["audio"]}, "modalities.0", "'text'"),
    (CHAT | {"top_logprobs": 2}, "top_logprobs", "needs logprobs"),
    (CHAT | {"logprobs": True, "top_logprobs": 21}, "top_logprobs", "less than or equal to 20"),
    (CHAT | {"logprobs": 1}, "logprobs", "valid boolean"),
    (CHAT | {"reasoning_effort": "low"}, "reasoning_effort", "not a field"),
    (turn(role="tool", content="x"), "messages.0.role", "calls no tools"),
    (turn(role="<|im_start|>", content="x"), "messages.0.role", "must be one of system, developer, user, assistant"),
    (turn(role=["user"], content="x"), "messages.0.role", "must be one of"),
    (turn(content="x"), "messages.0.role", "required"),
    (turn(role="user"), "messages.0", "content is required"),
    (turn(role="user", content=1), "messages.0.content", "valid string"),
    (turn(role="user", content=[]), "messages.0.content", "at least 1 item"),
    (turn(role="user", content=[{"type": "text"}]), "messages.0.content.0.text", "required"),
    (
        turn(role="user", content=[{"type": "image_url", "image_url": {"url": "x"}}]),
        "messages.0.content.0.type",
        "reads text only",
    ),
    (turn(role="user", content="a\x7f"), "messages.0.content", "U+007F"),
    (turn(role="user", content="a", name="b\x00"), "messages.0.name", "U+0000"),
    (turn(role="assistant", content="x", tool_calls=[{}]), "messages.0.tool_calls", "at most 0"),
    ({"model": MODEL, "messages": [{"role": "user", "content": "x"}] * 2}, None, "roles must alternate"),
]


@pytest.mark.parametrize(("body", "param", "message"), REFUSED)
async def test_what_cannot_be_served_is_refused_by_name(body, param, message):
    """Each fault is a 400 in OpenAI's shape that names the field, and the engine is never asked."""
    gateway = ScriptedGateway()
    response = await post(gateway, body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]
    if param is not None:
        assert error["param"] == param
    assert gateway.asked == []


@pytest.mark.parametrize("kind", ["text", "ids"])
async def test_complaints_quote_no_prompt(kind):
    """A refusal may end up in a log, so it says nothing of what the prompt says."""
    prompt = "the secret\x00" if kind == "text" else ["the secret", 4]
    response = await post(ScriptedGateway(), RAW | {"prompt": prompt, "max_tokens": "the secret"})
    assert response.status_code == 400
    assert "the secret" not in response.text


@pytest.mark.parametrize(("named", "given"), [("7", 7.0), ("0.5", 0.5), ("99999", 600.0), (None, None)])
async def test_time_limit_of_a_request(named, given):
    """X-Request-Timeout-S limits a request, up to the server's own limit."""
    gateway = ScriptedGateway()
    headers = {} if named is None else {"X-Request-Timeout-S": named}
    assert (await post(gateway, RAW, **headers)).status_code == 200
    assert gateway.timeouts == [given]


@pytest.mark.parametrize("named", ["0", "-1", "nan", "inf", "soon", ""])
async def test_time_limits_that_are_none(named):
    """Anything but a positive number of seconds is refused."""
    response = await post(ScriptedGateway(), RAW, **{"X-Request-Timeout-S": named})
    assert response.status_code == 400
    assert "positive number of seconds" in response.text


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=UTF-8", 200),
        ('application/json; charset="utf-8"', 200),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ],
)
async def test_content_type(content_type, status):
    """A body must not say that it is anything but JSON in UTF-8."""
    response = await post(ScriptedGateway(), RAW, **{"Content-Type": content_type})
    assert response.status_code == status


async def test_request_ids():
    """A sane X-Request-Id comes back, also with an error; another one is replaced."""
    sane = await post(ScriptedGateway(), RAW, **{"X-Request-Id": "abc-1"})
    refused = await post(ScriptedGateway(), {}, "/v1/completions", **{"X-Request-Id": "abc-2"})
    wild = await post(ScriptedGateway(), RAW, **{"X-Request-Id": "x" * 129})
    assert (sane.headers["x-request-id"], refused.headers["x-request-id"]) == ("abc-1", "abc-2")
    assert len(wild.headers["x-request-id"]) == 32

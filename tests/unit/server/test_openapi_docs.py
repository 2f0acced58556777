"""What the OpenAPI document says of the routes, and whether it is true."""

from __future__ import annotations

import json

import httpx
import jsonschema_rs
import pytest

from eagle3.server.openapi_docs import inlined
from protocol_doubles import MODEL, ScriptedGateway, protocol_app

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
RAW = {"model": MODEL, "prompt": "x"}
ROUTES = ["/v1/completions", "/v1/chat/completions", "/invocations"]


@pytest.fixture(scope="module")
def document():
    """The document of an app with every route."""
    return protocol_app(ScriptedGateway()).openapi()


def schema_of(document, path, *place):
    """A schema in the document, with what it refers to."""
    found = document["paths"][path]["post"]
    for part in place:
        found = found[part]
    return json.loads(json.dumps(found["content"]["application/json"]["schema"])) | {
        "components": document["components"]
    }


def test_no_reference_points_nowhere(document):
    """Every reference in the document has a target in it."""
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split('"#/')[1:]}:
        node = document
        for part in name.split("/"):
            node = node[part]


@pytest.mark.parametrize("path", ROUTES)
def test_errors_are_declared(document, path):
    """Every status that a client can meet is there with the error schema."""
    responses = document["paths"][path]["post"]["responses"]
    for status in ("400", "401", "404", "413", "415", "429", "500", "503", "504"):
        assert responses[status]["content"]["application/json"]["schema"]["$ref"].endswith("ErrorBody")
    assert "422" not in responses
    assert set(responses["200"]["content"]) == {"application/json", "text/event-stream"}


@pytest.mark.parametrize("path", ROUTES)
def test_examples_are_served(document, path):
    """Each example of the document fits its schema and is answered."""
    content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    validator = jsonschema_rs.validator_for(schema_of(document, path, "requestBody"))
    for example in content["examples"].values():
        assert validator.is_valid(example["value"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", RAW | {"logprobs": 1, "n": 2}),
        ("/v1/chat/completions", CHAT | {"logprobs": True, "top_logprobs": 1}),
        ("/v1/chat/completions", CHAT),
        ("/invocations", RAW),
        ("/v1/completions", RAW | {"best": 1}),
        ("/invocations", {}),
    ],
)
async def test_answers_fit_their_schemas(document, path, body):
    """Answers and refusals are what the document says."""
    transport = httpx.ASGITransport(protocol_app(ScriptedGateway()))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        response = await http.post(path, json=body)
    schema = schema_of(document, path, "responses", str(response.status_code))
    jsonschema_rs.validator_for(schema).validate(response.json())


@pytest.mark.parametrize(
    ("path", "body", "fits"),
    [
        ("/v1/completions", RAW, True),
        ("/v1/completions", RAW | {"prompt": [[1], [2]], "stop": ["a"], "logit_bias": {"1": 2}}, True),
        ("/v1/completions", RAW | {"temperature": None}, True),
        ("/v1/completions", RAW | {"best": 1}, False),
        ("/v1/completions", RAW | {"prompt": ""}, False),
        ("/v1/completions", {"prompt": "x"}, False),
        ("/v1/completions", RAW | {"logit_bias": {"a": 1}}, False),
        ("/v1/chat/completions", CHAT | {"response_format": {"type": "json_object"}}, True),
        ("/v1/chat/completions", CHAT | {"messages": [{"role": "tool", "content": "x"}]}, False),
        ("/v1/chat/completions", CHAT | {"tools": [{}]}, False),
        ("/invocations", {"prompt": "x"}, True),
        ("/invocations", {"prompt": 1}, False),
    ],
)
async def test_bodies_fit_their_schemas_or_are_refused(document, path, body, fits):
    """The schema and the server agree on what is a body."""
    assert jsonschema_rs.validator_for(schema_of(document, path, "requestBody")).is_valid(body) == fits
    transport = httpx.ASGITransport(protocol_app(ScriptedGateway()))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        assert (await http.post(path, json=body)).status_code == (200 if fits else 400)


def test_inlining_resolves_nested_references():
    """References inside of referenced parts are resolved, and what stands beside one is kept."""
    schema = {
        "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/B"}}, "B": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/A", "description": "kept"}},
    }
    assert inlined(schema) == {
        "properties": {"a": {"type": "array", "items": {"type": "string"}, "description": "kept"}}
    }

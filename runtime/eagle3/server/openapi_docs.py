"""What the OpenAPI document says of routes that read their bodies themselves.

Knows pydantic models only as schemas. Invariant: the schema in the document is the one that bodies are checked with.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic import BaseModel

from eagle3.server.openai_responses import ErrorBody
from eagle3.server.request_headers import TIMEOUT_HEADER

_MEANINGS = {
    400: "The request is malformed or asks for something that cannot be served",
    401: "No API key, or an unknown one",
    404: "Another model is served here",
    408: "The body came too slowly",
    413: "The body is too large",
    415: "The body is not JSON",
    429: "The queue is full; `Retry-After` says when to come back",
    500: "Internal error",
    503: "The engine is loading, has failed, or is being stopped",
    504: "The request took longer than it may",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": meaning} for status, meaning in _MEANINGS.items()
}


def answers_with(*models: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """The 200 of a route that answers with JSON or with server-sent events."""
    schemas = [inlined(model.model_json_schema(mode="serialization")) for model in models]
    content = {
        "application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}},
        "text/event-stream": {"schema": {"type": "string"}},
    }
    return {200: {"description": "The answer", "content": content}}


def body_of(
    model_name: str, *models: type[BaseModel], examples: dict[str, Any], names_model: bool = False
) -> dict[str, Any]:
    """The request body of a route, as `openapi_extra`; MODEL in an example stands for the served model.

    `names_model`: whether a body must name it.
    """
    schemas = [inlined(model.model_json_schema()) for model in models]
    for schema in schemas:
        if names_model:
            schema["properties"]["model"] = {"const": model_name, "description": "name of the model"}
            schema["required"] = ["model", *schema["required"]]
        else:
            schema["properties"]["model"]["anyOf"] = [{"const": model_name}, {"type": "null"}]
    named = copy.deepcopy(examples)
    for example in named.values():
        if "model" in example["value"]:
            example["value"]["model"] = model_name
    content = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, "examples": named}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def timeout_parameter() -> dict[str, Any]:
    """The header that limits a request's time, as `openapi_extra`."""
    return {"parameters": [header(TIMEOUT_HEADER, "seconds that the request may take", {"type": "string"})]}


def header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """An optional request header."""
    return {"name": name, "in": "header", "required": False, "description": description, "schema": schema}


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema without references, which would point outside of it once it is part of a larger document."""
    definitions = schema.get("$defs", {})

    def resolve(node: Any) -> Any:
        if isinstance(node, list):
            return [resolve(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            target = definitions[node["$ref"].removeprefix("#/$defs/")]
            return resolve(target | {key: value for key, value in node.items() if key != "$ref"})
        # A discriminator's mapping holds references as well, and says nothing that the parts do not.
        return {key: resolve(value) for key, value in node.items() if key not in ("$defs", "discriminator")}

    made: dict[str, Any] = resolve(schema)
    return made

"""SageMaker's contract with a container: GET /ping and POST /invocations.

The bodies are those of the OpenAI routes; which one is told by its fields. Knows no AWS account.
Invariant: /ping is 200 exactly when an invocation would be answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from eagle3.server import chat, completions
from eagle3.server.answering import client_gone, read_object, respond
from eagle3.server.disconnect import ClientGoneError
from eagle3.server.gateway import Gateway
from eagle3.server.model_name import check_model
from eagle3.server.openai_requests import ChatRequest, CompletionRequest, validate
from eagle3.server.openai_responses import ChatCompletion, Completion, ErrorBody
from eagle3.server.openapi_docs import ERRORS, answers_with, body_of, header
from eagle3.server.refusals import RequestRefusedError
from eagle3.server.request_headers import ATTRIBUTES_HEADER, check_accept, read_attributes, read_timeout
from eagle3.server.shape import Shape
from eagle3.server.sse import EVENT_STREAM

_ATTRIBUTES = {
    "parameters": [
        header(
            ATTRIBUTES_HEADER,
            "`name=value` pairs between commas: speculate=true|false, timeout-s=SECONDS; others do nothing. Sent back.",
            {"type": "string", "maxLength": 1024},
        )
    ]
}
_NOT_ACCEPTABLE: dict[int | str, dict[str, Any]] = {
    406: {"model": ErrorBody, "description": "`Accept` leaves out what the route answers with"}
}


def sagemaker_router(gateway: Gateway, *, clock: Callable[[], float] = time.time) -> APIRouter:
    """The two routes; `clock` gives seconds since 1970."""
    router = APIRouter(tags=["SageMaker"])

    @router.get(
        "/ping",
        summary="Whether the model answers",
        response_class=Response,
        responses={200: {"description": "It answers"}, 503: {"description": "It does not, yet or any more"}},
    )
    async def ping() -> Response:
        """Has no body."""
        return Response(status_code=200 if gateway.ready else 503)

    @router.post(
        "/invocations",
        summary="Continue prompts or answer a conversation",
        response_class=Response,
        responses=answers_with(Completion, ChatCompletion) | ERRORS | _NOT_ACCEPTABLE,
        openapi_extra=body_of(
            gateway.model_name, CompletionRequest, ChatRequest, examples=completions.EXAMPLES | chat.EXAMPLES
        )
        | _ATTRIBUTES,
    )
    async def invocations(request: Request) -> Response:
        """A body with `messages` is a conversation, one with `prompt` holds raw prompts; `model` may be left out."""
        try:
            return await invoke(request, gateway, created=int(clock()), accept=request.headers.get("accept"))
        except ClientGoneError:
            return client_gone()

    return router


async def invoke(request: Request, gateway: Gateway, *, created: int, accept: str | None) -> Response:
    """Answer one invocation; ClientGoneError when the client went away before the response began."""
    asked = read_attributes(request.headers, limit_s=gateway.limits.timeout_s)
    timeout_s = read_timeout(request.headers, limit_s=gateway.limits.timeout_s)
    values = await read_object(request)
    streams = values.get("stream") is True
    # A stream is taken for JSON as well: clients name the type of an answer's parts.
    check_accept(accept, *([EVENT_STREAM] if streams else []), "application/json")
    shape = await _shape(gateway, values, created=created, speculate=asked.speculate)
    return await respond(
        request,
        gateway,
        shape,
        timeout_s=timeout_s if asked.timeout_s is None else asked.timeout_s,
        headers=None if asked.text is None else {ATTRIBUTES_HEADER: asked.text},
    )


async def _shape(gateway: Gateway, values: dict[str, Any], *, created: int, speculate: bool | None) -> Shape:
    if ("messages" in values) == ("prompt" in values):
        raise RequestRefusedError("the body must have either messages, for a conversation, or prompt, for raw prompts")
    if "messages" in values:
        conversation = validate(ChatRequest, values)
        check_model(gateway, conversation.model, required=False)
        return await chat.chat_shape(gateway, conversation, created=created, speculate=speculate)
    raw = validate(CompletionRequest, values)
    check_model(gateway, raw.model, required=False)
    return await completions.completion_shape(gateway, raw, created=created, speculate=speculate)

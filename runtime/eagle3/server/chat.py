"""POST /v1/chat/completions: conversations.

Knows no transport. Invariant: roles come from the `role` fields alone; what a message's text spells cannot make one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from eagle3.server.answering import client_gone, read_object, respond
from eagle3.server.chat_shape import ChatShape
from eagle3.server.disconnect import ClientGoneError
from eagle3.server.gateway import Gateway
from eagle3.server.messages import ChatMessage
from eagle3.server.model_name import check_model
from eagle3.server.openai_requests import ChatRequest, validate
from eagle3.server.openai_responses import ChatCompletion
from eagle3.server.openapi_docs import ERRORS, answers_with, body_of, timeout_parameter
from eagle3.server.prompt_text import encode_messages
from eagle3.server.refusals import RequestRefusedError
from eagle3.server.request_headers import read_timeout
from eagle3.server.translate import check_counts, make_job

EXAMPLES = {
    "chat": {
        "value": {
            "model": "MODEL",
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": 16,
            "seed": 1,
        }
    },
}


def chat_router(gateway: Gateway, *, clock: Callable[[], float] = time.time) -> APIRouter:
    """The route; `clock` gives seconds since 1970."""
    router = APIRouter(tags=["OpenAI"])

    @router.post(
        "/v1/chat/completions",
        summary="Answer a conversation",
        response_class=Response,
        responses=answers_with(ChatCompletion) | ERRORS,
        openapi_extra=body_of(gateway.model_name, ChatRequest, examples=EXAMPLES, names_model=True)
        | timeout_parameter(),
    )
    async def chat_completions(request: Request) -> Response:
        """Answers the last message; with `stream`, as server-sent events."""
        try:
            timeout_s = read_timeout(request.headers, limit_s=gateway.limits.timeout_s)
            body = validate(ChatRequest, await read_object(request))
            check_model(gateway, body.model)
            shape = await chat_shape(gateway, body, created=int(clock()))
            return await respond(request, gateway, shape, timeout_s=timeout_s)
        except ClientGoneError:
            return client_gone()

    return router


async def chat_shape(gateway: Gateway, body: ChatRequest, *, created: int, speculate: bool | None = None) -> ChatShape:
    """The response that a body asks for; InvalidInputError where it cannot be given."""
    check_counts(gateway, 1, 1 if body.n is None else body.n)
    prompt_ids = await encode_messages(gateway, [_for_template(message) for message in body.messages])
    job = make_job(
        gateway,
        body,
        [prompt_ids],
        kind="chatcmpl",
        created=created,
        max_tokens=_max_tokens(body),
        logprobs=_logprobs(body),
        prompt_param="messages",
        speculate=speculate,
    )
    return ChatShape(job, gateway.tokenizer)


def _for_template(message: ChatMessage) -> dict[str, str]:
    made = {"role": message.template_role, "content": message.text}
    return made if message.name is None else made | {"name": message.name}


def _max_tokens(body: ChatRequest) -> int | None:
    old, new = body.max_tokens, body.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise RequestRefusedError(
            f"max_tokens is {old} and max_completion_tokens is {new}; they mean the same, give one",
            param="max_completion_tokens",
        )
    return old if new is None else new


def _logprobs(body: ChatRequest) -> int | None:
    if body.logprobs:
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise RequestRefusedError("top_logprobs needs logprobs: true", param="top_logprobs")
    return None

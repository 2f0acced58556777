"""POST /v1/completions: raw prompts.

Knows no transport. Invariant: the text of a prompt reaches the model as text; only token ids can be control tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from eagle3.server.answering import client_gone, read_object, respond
from eagle3.server.completion_shape import CompletionShape
from eagle3.server.disconnect import ClientGoneError
from eagle3.server.gateway import Gateway
from eagle3.server.model_name import check_model
from eagle3.server.openai_requests import CompletionRequest, validate
from eagle3.server.openai_responses import Completion
from eagle3.server.openapi_docs import ERRORS, answers_with, body_of, timeout_parameter
from eagle3.server.prompt_text import check_prompt, encode_texts
from eagle3.server.refusals import RequestRefusedError
from eagle3.server.request_headers import read_timeout
from eagle3.server.translate import check_counts, make_job

EXAMPLES = {
    "text": {"value": {"model": "MODEL", "prompt": "The capital of France is", "max_tokens": 16, "temperature": 0}},
    "stream": {"value": {"model": "MODEL", "prompt": ["One", "Two"], "n": 2, "stream": True, "max_tokens": 8}},
}


def completions_router(gateway: Gateway, *, clock: Callable[[], float] = time.time) -> APIRouter:
    """The route; `clock` gives seconds since 1970."""
    router = APIRouter(tags=["OpenAI"])

    @router.post(
        "/v1/completions",
        summary="Continue raw prompts",
        response_class=Response,
        responses=answers_with(Completion) | ERRORS,
        openapi_extra=body_of(gateway.model_name, CompletionRequest, examples=EXAMPLES, names_model=True)
        | timeout_parameter(),
    )
    async def completions(request: Request) -> Response:
        """Continues each prompt; with `stream`, as server-sent events."""
        try:
            timeout_s = read_timeout(request.headers, limit_s=gateway.limits.timeout_s)
            body = validate(CompletionRequest, await read_object(request))
            check_model(gateway, body.model)
            shape = await completion_shape(gateway, body, created=int(clock()))
            return await respond(request, gateway, shape, timeout_s=timeout_s)
        except ClientGoneError:
            return client_gone()

    return router


async def completion_shape(
    gateway: Gateway, body: CompletionRequest, *, created: int, speculate: bool | None = None
) -> CompletionShape:
    """The response that a body asks for; InvalidInputError where it cannot be given."""
    n = 1 if body.n is None else body.n
    check_counts(gateway, len(body.prompt), n)
    if body.best_of not in (None, n):
        raise RequestRefusedError(
            f"best_of is {body.best_of} and n is {n}: answers are not ranked here, leave best_of out", param="best_of"
        )
    if body.echo and body.logprobs is not None:
        raise RequestRefusedError(
            "echo with logprobs is not supported: prompts are not scored; ask for one of the two", param="echo"
        )
    prompts, texts = await _prompts(gateway, body.prompt)
    job = make_job(
        gateway,
        body,
        prompts,
        kind="cmpl",
        created=created,
        max_tokens=body.max_tokens,
        logprobs=body.logprobs,
        prompt_param="prompt",
        speculate=speculate,
        echo=texts if body.echo else (),
    )
    return CompletionShape(job, gateway.tokenizer)


async def _prompts(gateway: Gateway, given: list[Any]) -> tuple[list[list[int]], list[str]]:
    """Token ids and text of each prompt."""
    if isinstance(given[0], str):
        return await encode_texts(gateway, given, "prompt"), given
    for place, prompt_ids in enumerate(given):
        check_prompt(gateway, prompt_ids, "prompt" if len(given) == 1 else f"prompt.{place}")
    return given, [gateway.tokenizer.decode(prompt_ids) for prompt_ids in given]

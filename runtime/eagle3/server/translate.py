"""A checked body and its prompts to a Job: sampling parameters, limits, defaults.

Where OpenAI and the library disagree, OpenAI's default counts here: no temperature means 1. Knows no routes.
Invariant: every request of a Job can be served within the model's context and the server's limits.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from eagle3.engine.interface import GenerationRequest
from eagle3.sampling.params import SamplingParams, sampling_params
from eagle3.server.gateway import Gateway
from eagle3.server.job import Job, fingerprint
from eagle3.server.openai_requests import GenerationBody, JsonObjectFormat, JsonSchemaFormat
from eagle3.server.prompt_text import check_prompt, check_text
from eagle3.server.refusals import RequestRefusedError

_DEFAULT_TEMPERATURE = 1.0
_MAX_STOP_CHARACTERS = 1024
# What a body calls otherwise than SamplingParams, which leaves out what is None.
_SAME_NAMES = (
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "ignore_eos",
)


def make_job(
    gateway: Gateway,
    body: GenerationBody,
    prompts: Sequence[Sequence[int]],
    *,
    kind: str,
    created: int,
    max_tokens: int | None,
    logprobs: int | None,
    prompt_param: str,
    speculate: bool | None = None,
    echo: Sequence[str] = (),
) -> Job:
    """`kind` is the prefix of the answer's id; `speculate`, where it is not None, counts more than the body's."""
    n = 1 if body.n is None else body.n
    check_counts(gateway, len(prompts), n)
    if body.stream_options is not None and not body.stream:
        raise RequestRefusedError("stream_options is only allowed with stream: true", param="stream_options")
    answer_id = f"{kind}-{secrets.token_hex(16)}"
    wanted = next((choice for choice in (speculate, body.speculate) if choice is not None), True)
    shared = _shared_params(gateway, body) | {"logprobs": logprobs}
    requests: list[GenerationRequest] = []
    for place, prompt_ids in enumerate(prompts):
        name = prompt_param if len(prompts) == 1 else f"{prompt_param}.{place}"
        check_prompt(gateway, prompt_ids, name)
        params = _params(shared, body, _max_new_tokens(gateway, len(prompt_ids), max_tokens, name))
        requests += (
            GenerationRequest(
                request_id=f"{answer_id}-{place}-{index}",
                prompt_ids=tuple(prompt_ids),
                params=params,
                index=index,
                speculate=wanted,
            )
            for index in range(n)
        )
    return Job(
        answer_id=answer_id,
        created=created,
        model=gateway.model_name,
        fingerprint=fingerprint(gateway),
        requests=tuple(requests),
        prompt_tokens=sum(map(len, prompts)),
        stream=bool(body.stream),
        include_usage=body.stream_options is not None and bool(body.stream_options.include_usage),
        logprobs=logprobs is not None,
        echo=tuple(text for text in echo for _ in range(n)),
    )


def check_counts(gateway: Gateway, prompts: int, n: int) -> None:
    """Refuse more answers than the server takes on at a time."""
    limits = gateway.limits
    if n > limits.max_answers:
        raise RequestRefusedError(f"n is {n}; at most {limits.max_answers} answers are allowed", param="n")
    most = limits.concurrency + limits.queue
    if prompts * n > most:
        raise RequestRefusedError(
            f"the request asks for {prompts * n} answers ({prompts} prompts, n = {n}); the server takes on at most "
            f"{most} at a time, send fewer prompts a request"
        )


def _max_new_tokens(gateway: Gateway, prompt_tokens: int, asked: int | None, param: str) -> int:
    room, most = gateway.context_tokens - prompt_tokens, gateway.limits.max_output_tokens
    if asked is None:
        return min(room, most)
    if asked > most:
        raise RequestRefusedError(f"max_tokens is {asked}; at most {most} are allowed", param="max_tokens")
    if asked > room:
        raise RequestRefusedError(
            f"the model's context is {gateway.context_tokens} tokens; {param} has {prompt_tokens} and max_tokens asks "
            f"for {asked}, {prompt_tokens + asked} together; ask for at most {room} or shorten {param}",
            param="max_tokens",
        )
    return asked


def _shared_params(gateway: Gateway, body: GenerationBody) -> dict[str, Any]:
    """Sampling parameters that are the same for every prompt."""
    values: dict[str, Any] = {name: getattr(body, name) for name in _SAME_NAMES}
    values["temperature"] = _DEFAULT_TEMPERATURE if body.temperature is None else body.temperature
    values["top_k"] = None if body.top_k is None else max(body.top_k, 0)
    values["seed"] = None if body.seed is None else body.seed % 2**63
    values["logit_bias"] = _logit_bias(gateway, body)
    values["stop"] = tuple(body.stop) if body.stop else None
    values["stop_token_ids"] = tuple(body.stop_token_ids) if body.stop_token_ids else None
    values["json_schema"] = _json_schema(body)
    for place, text in enumerate(body.stop or ()):
        check_text(text, f"stop.{place}")
        if not 0 < len(text) <= _MAX_STOP_CHARACTERS:
            raise RequestRefusedError(
                f"stop.{place} must have 1 to {_MAX_STOP_CHARACTERS} characters; got {len(text)}", param="stop"
            )
    for token_id in body.stop_token_ids or ():
        _check_token(gateway, token_id, "stop_token_ids")
    return values


def _params(shared: dict[str, Any], body: GenerationBody, max_new_tokens: int) -> SamplingParams:
    if body.min_tokens is not None and body.min_tokens > max_new_tokens:
        raise RequestRefusedError(
            f"min_tokens is {body.min_tokens}, more than the {max_new_tokens} tokens that the answer can have",
            param="min_tokens",
        )
    values = shared | {"max_new_tokens": max_new_tokens, "min_new_tokens": body.min_tokens}
    return sampling_params(**{name: value for name, value in values.items() if value is not None})


def _logit_bias(gateway: Gateway, body: GenerationBody) -> dict[int, float] | None:
    if not body.logit_bias:
        return None
    biases: dict[int, float] = {}
    for key, bias in body.logit_bias.items():
        _check_token(gateway, int(key), "logit_bias")
        if int(key) in biases:
            raise RequestRefusedError(f"logit_bias names token {int(key)} twice", param="logit_bias")
        biases[int(key)] = bias
    return biases


def _check_token(gateway: Gateway, token_id: int, param: str) -> None:
    if not 0 <= token_id < gateway.vocab_size:
        raise RequestRefusedError(
            f"{param}: token id {str(token_id)[:40]} is outside the model's vocabulary, 0 to {gateway.vocab_size - 1}",
            param=param,
        )


def _json_schema(body: GenerationBody) -> str | None:
    wanted = body.response_format
    if isinstance(wanted, JsonSchemaFormat):
        schema = wanted.json_schema.schema_
        return json.dumps({"type": "object"} if schema is None else schema, ensure_ascii=False)
    return json.dumps({"type": "object"}) if isinstance(wanted, JsonObjectFormat) else None

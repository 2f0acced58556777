"""What a request may ask of sampling and of where its text ends. Checked once, at the edge."""

from __future__ import annotations

import math
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from eagle3.errors import InvalidInputError
from eagle3.sampling.json_schema import canonical_schema

_MAX_LOGPROBS = 20
_MAX_BIAS = 100.0


class SamplingParams(BaseModel):
    """Sampling parameters with the names and ranges of the OpenAI and vLLM APIs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = Field(default=0.0, ge=0.0, le=100.0, description="0 takes the most probable token")
    top_k: int = Field(default=0, ge=0, description="tokens kept, most probable first; 0 keeps all")
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, description="smallest set of tokens with this probability")
    min_p: float = Field(default=0.0, ge=0.0, le=1.0, description="least probability, as a share of the largest")
    repetition_penalty: float = Field(
        default=1.0, gt=0.0, le=10.0, description="divides positive and multiplies negative logits of seen tokens"
    )
    presence_penalty: float = Field(default=0.0, ge=-2.0, le=2.0, description="taken off logits of generated tokens")
    frequency_penalty: float = Field(default=0.0, ge=-2.0, le=2.0, description="the same, times their count")
    logit_bias: dict[int, float] = Field(default_factory=dict, description="added to logits of token ids; -100 to 100")
    seed: int | None = Field(default=None, ge=0, lt=2**63, description="makes sampled text repeatable")
    max_new_tokens: int = Field(default=128, ge=1, description="tokens generated at most")
    min_new_tokens: int = Field(default=0, ge=0, description="tokens before an end-of-text or stop token may come")
    stop: tuple[str, ...] = Field(default=(), max_length=16, description="strings that end the text, not part of it")
    stop_token_ids: tuple[int, ...] = Field(default=(), description="tokens that end the text, besides the model's own")
    ignore_eos: bool = Field(default=False, description="go on past the model's end-of-text tokens")
    logprobs: int | None = Field(default=None, ge=0, le=_MAX_LOGPROBS, description="alternatives reported per token")
    n: int = Field(default=1, ge=1, le=128, description="answers per prompt")
    json_schema: str | None = Field(
        default=None,
        description='JSON schema text that the answer must match; \'{"type":"object"}\' for any object',
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be a finite number")
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens ({self.min_new_tokens}) must not exceed max_new_tokens ({self.max_new_tokens})"
            )
        if any(not text for text in self.stop):
            raise ValueError("stop strings must not be empty")
        for token_id, bias in self.logit_bias.items():
            if not -_MAX_BIAS <= bias <= _MAX_BIAS:
                raise ValueError(f"logit_bias of token {token_id} must be between -100 and 100; got {bias}")
        self._check_json_schema()
        return self

    def _check_json_schema(self) -> None:
        if self.json_schema is None:
            return
        canonical_schema(self.json_schema)
        for name in ("ignore_eos", "min_new_tokens"):
            if getattr(self, name):
                raise ValueError(
                    f"{name} ({getattr(self, name)}) cannot be combined with json_schema, which decides where the "
                    f"text ends; leave one of them out"
                )


def sampling_params(**values: object) -> SamplingParams:
    """Build SamplingParams; InvalidInputError names the parameter, what was got and what is allowed."""
    try:
        return SamplingParams.model_validate(values)
    except ValidationError as error:
        raise InvalidInputError(describe(error)) from error


def describe(error: ValidationError) -> str:
    """One line for the first complaint of a pydantic error."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if not place:
        return str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {first['msg']}; got {first['input']!r}"

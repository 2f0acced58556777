"""Bodies of answers, as the OpenAI API gives them.

Written with `exclude_unset`: a field that is not given is absent, one that is given as None is null. Knows no engine.
Invariant: every body is valid JSON; log-probabilities are finite.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

FinishReason = Literal["stop", "length"]


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """Body of every answer that is an error."""

    error: ErrorDetail


class CompletionTokensDetails(BaseModel):
    """What became of the drafted tokens."""

    accepted_prediction_tokens: int = Field(description="drafted tokens that are part of the answers")
    rejected_prediction_tokens: int = Field(description="drafted tokens that are not; they cost nothing to the client")


class Usage(BaseModel):
    """Token counts of a request; `n` answers to one prompt count the prompt once."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: CompletionTokensDetails | None = None


class CompletionLogprobs(BaseModel):
    """Log-probabilities of a completion's tokens, one entry a token in each list."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One answer to a raw prompt, or what one chunk adds to it."""

    text: str
    index: int
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishReason | None = None


class Completion(BaseModel):
    """Answers to raw prompts; as a chunk, what is new of them."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage | None = None


class TopLogprob(BaseModel):
    """A token that could have come."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """The token that came, and the most probable ones in its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Log-probabilities of an answer's tokens."""

    content: list[TokenLogprob]
    refusal: None = None


class AnswerMessage(BaseModel):
    """The model's turn."""

    role: Literal["assistant"]
    content: str
    refusal: None = None


class ChatChoice(BaseModel):
    """One answer to a conversation."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason


class ChatCompletion(BaseModel):
    """Answers to a conversation."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class ChatDelta(BaseModel):
    """What a chunk adds to the model's turn."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class ChatChunkChoice(BaseModel):
    """What is new of one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishReason | None = None


class ChatChunk(BaseModel):
    """What is new of the answers to a conversation."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None


class Model(BaseModel):
    """A model that is served."""

    model_config = ConfigDict(protected_namespaces=())

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int = Field(description="tokens of prompt and answer together")


class ModelList(BaseModel):
    """The models that are served."""

    object: Literal["list"]
    data: list[Model]

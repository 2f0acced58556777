"""Bodies of the completion and chat requests: fields of the OpenAI API, and those that vLLM adds to them.

An absent field and `null` mean the same, as with OpenAI. Fields that cannot change the text are accepted and not
looked at; any other unknown field is refused by name. Knows no model: what depends on one is checked in translate.py.
Invariant: types are strict, "5" is no number and 1 is no boolean.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema

from eagle3.server.messages import PARTS, TEXT, ChatMessage
from eagle3.server.refusals import RequestRefusedError

MAX_STOP_STRINGS = 16
MAX_LOGPROBS = 20
MAX_PROMPTS = 4096
MAX_MESSAGES = 4096


class Body(BaseModel):
    """Base of what a client sends."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())


class StreamOptions(Body):
    """What a stream carries besides text."""

    include_usage: bool | None = Field(default=None, description="a last chunk with the token counts")
    include_obfuscation: bool | None = Field(default=None, description="accepted; nothing is ever added")


class TextFormat(Body):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(Body):
    """A JSON object."""

    type: Literal["json_object"]


class NamedSchema(Body):
    """A JSON schema and its name."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")
    description: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema", description="null: any object")
    strict: bool | None = Field(default=None, description="the schema always holds strictly")


class JsonSchemaFormat(Body):
    """JSON that a schema allows."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


def _one_or_many_texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("must be a string or a list of strings")
    if len(texts) > MAX_STOP_STRINGS:
        raise ValueError(f"must hold at most {MAX_STOP_STRINGS} strings; got {len(texts)}")
    return texts


Stop = Annotated[
    list[str],
    PlainValidator(_one_or_many_texts),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": MAX_STOP_STRINGS},
            ]
        }
    ),
]


def _prompts(value: Any) -> list[str] | list[list[int]]:
    """A prompt as text or token ids, or several of one kind, as a list of prompts."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if len(value) > MAX_PROMPTS and type(value[0]) is not int:
            raise ValueError(f"must be at most {MAX_PROMPTS} prompts; got {len(value)}")
        if all(isinstance(item, str) for item in value):
            return list(value)
        if all(type(item) is int for item in value):
            return [value]
        if all(isinstance(item, list) and item and all(type(part) is int for part in item) for item in value):
            return list(value)
    raise ValueError("must be a text, a list of texts, a list of token ids or a list of such lists, and not empty")


_TOKEN_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
Prompts = Annotated[
    list[str] | list[list[int]],
    PlainValidator(_prompts),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1},
                    "minItems": 1,
                    "maxItems": MAX_PROMPTS,
                },
                _TOKEN_IDS,
                {"type": "array", "items": _TOKEN_IDS, "minItems": 1, "maxItems": MAX_PROMPTS},
            ]
        }
    ),
]


_DIGITS = r"^\d{1,9}$"
LogitBias = Annotated[
    dict[Annotated[str, Field(pattern=_DIGITS)], Annotated[float, Field(ge=-100, le=100)]],
    WithJsonSchema(
        {
            "type": "object",
            "patternProperties": {_DIGITS: {"type": "number", "minimum": -100, "maximum": 100}},
            "additionalProperties": False,
        }
    ),
]


class GenerationBody(Body):
    """Fields that completions and chats share."""

    model: str | None = Field(default=None, description="name of the model; may be left out in /invocations only")
    max_tokens: int | None = Field(
        default=None, ge=1, description="tokens of an answer; null: what the context leaves, up to the server's limit"
    )
    n: int | None = Field(default=None, ge=1, le=128, description="answers per prompt; null: 1")
    stream: bool | None = Field(default=None, description="send the answer as server-sent events while it is made")
    stream_options: StreamOptions | None = Field(default=None, description="only with stream")
    temperature: float | None = Field(
        default=None, ge=0.0, le=100.0, description="0 takes the most probable token; null: 1, as with OpenAI"
    )
    top_p: float | None = Field(default=None, gt=0.0, le=1.0, description="smallest set of tokens with that mass")
    top_k: int | None = Field(default=None, ge=-1, description="most probable tokens kept; 0 and -1 keep all")
    min_p: float | None = Field(default=None, ge=0.0, le=1.0, description="least share of the largest probability")
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63, description="makes sampled text repeatable")
    presence_penalty: float | None = Field(default=None, ge=-2.0, le=2.0)
    frequency_penalty: float | None = Field(default=None, ge=-2.0, le=2.0)
    repetition_penalty: float | None = Field(default=None, gt=0.0, le=10.0, description="null: 1, no penalty")
    logit_bias: LogitBias | None = Field(
        default=None, description="token ids, written as strings, and what is added to their logits"
    )
    stop: Stop | None = Field(default=None, description="strings that end the answer, not part of it")
    stop_token_ids: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1024, fail_fast=True)] | None = None
    ignore_eos: bool | None = Field(default=None, description="go on past the model's end of text")
    min_tokens: int | None = Field(default=None, ge=0, description="tokens before an end of text may come")
    speculate: bool | None = Field(default=None, description="false: decode without the draft; null: true")
    response_format: ResponseFormat | None = None

    # Cannot change the text; accepted so that clients which send them work.
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None


class CompletionRequest(GenerationBody):
    """Body of POST /v1/completions."""

    prompt: Prompts = Field(description="raw prompts, as texts or token ids; control tokens in texts are plain text")
    best_of: int | None = Field(default=None, ge=1, le=128, description="must equal n")
    echo: bool | None = Field(default=None, description="put the prompt before the answer; not with logprobs")
    logprobs: int | None = Field(default=None, ge=0, le=MAX_LOGPROBS, description="alternatives reported per token")
    suffix: Literal[""] | None = Field(default=None, description="not supported: the model does not fill gaps")


class ChatRequest(GenerationBody):
    """Body of POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(
        min_length=1, max_length=MAX_MESSAGES, fail_fast=True, description="the conversation, oldest message first"
    )
    max_completion_tokens: int | None = Field(default=None, ge=1, description="newer name of max_tokens")
    logprobs: bool | None = Field(default=None, description="report the log-probability of every token")
    top_logprobs: int | None = Field(
        default=None, ge=0, le=MAX_LOGPROBS, description="alternatives reported per token; only with logprobs"
    )
    tools: Annotated[list[Any], Field(max_length=0)] | None = Field(default=None, description="not supported")
    tool_choice: Literal["none", "auto"] | None = Field(default=None, description="there are no tools to choose")
    functions: Annotated[list[Any], Field(max_length=0)] | None = Field(default=None, description="not supported")
    function_call: Literal["none", "auto"] | None = Field(default=None, description="there are no functions to call")
    parallel_tool_calls: bool | None = Field(default=None, description="accepted; there are no tools")
    modalities: list[Literal["text"]] | None = Field(default=None, description="text only")
    prediction: dict[str, Any] | None = Field(default=None, description="accepted; the draft predicts instead")


_Body = TypeVar("_Body", bound=Body)


def validate(kind: type[_Body], values: dict[str, Any]) -> _Body:
    """A body of that kind; RequestRefusedError names the first field at fault and quotes none of its text."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(str(part) for part in first["loc"] if part not in (TEXT, PARTS))
        raise RequestRefusedError(f"{name[:200]}: {_complaint(first)}", param=name[:200]) from error


def _complaint(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "is not a field that this server knows; leave it out"
    if error["type"] == "missing":
        return "is required"
    text = str(error["msg"]).removeprefix("Value error, ")
    got = error["input"]
    if got is None or isinstance(got, bool | int | float):
        return f"{text}; got {str(got)[:40]}"
    return f"{text}; got {type(got).__name__}" if not isinstance(got, str) else text

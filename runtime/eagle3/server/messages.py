"""The messages of a chat: roles that a client may take, and their text.

Knows no chat template. Invariant: a message is text of one of four roles; tools, images and audio are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

_ROLES = ("system", "developer", "user", "assistant")
# Members of a union; in the place of an error their names are no field's.
TEXT, PARTS = "(text)", "(parts)"


class TextPart(BaseModel):
    """One part of a message's content."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["text"]
    text: str

    @field_validator("type", mode="before")
    @classmethod
    def _only_text(cls, value: Any) -> Any:
        if isinstance(value, str) and value != "text":
            raise ValueError(f"content of type {value[:40]!a} is not supported: the model reads text only")
        return value


def _kind(value: Any) -> str:
    return PARTS if isinstance(value, list) else TEXT


Content = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[list[TextPart], Tag(PARTS), Field(min_length=1, fail_fast=True)],
    Discriminator(_kind),
]


class ChatMessage(BaseModel):
    """One turn of a conversation. What an answer of the API holds besides its text is accepted where it is empty."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    role: Literal["system", "developer", "user", "assistant"] = Field(description="developer is read as system")
    content: Content | None = Field(default=None, description="text, or parts that lines will separate")
    name: str | None = Field(default=None, max_length=64, description="given to the chat template")
    refusal: None = None
    annotations: list[Any] | None = Field(default=None, max_length=0)
    audio: None = None
    function_call: None = None
    tool_calls: list[Any] | None = Field(default=None, max_length=0)
    reasoning_content: None = None

    @field_validator("role", mode="before")
    @classmethod
    def _known_role(cls, value: Any) -> Any:
        if value in ("tool", "function"):
            raise ValueError(f"role {value!r} is not supported: this server calls no tools")
        if value not in _ROLES:
            shown = ascii(value[:40]) if isinstance(value, str) else type(value).__name__
            raise ValueError(f"a role must be one of {', '.join(_ROLES)}; got {shown}")
        return value

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None:
            raise ValueError("content is required")
        return self

    @property
    def text(self) -> str:
        """The content as one text; parts become lines."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""

    @property
    def template_role(self) -> str:
        """The role under the name that chat templates know."""
        return "system" if self.role == "developer" else self.role

"""How deltas and answers become bodies: what the completion and the chat form have in common.

Knows no transport. Invariant: the chunks of a stream, put together, say what the whole body would have said.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import Protocol

from pydantic import BaseModel

from eagle3.engine.answer import Answer
from eagle3.engine.interface import Delta
from eagle3.models.tokenizer import Tokenizer
from eagle3.server.job import Job

# JSON has no infinity; OpenAI writes this for what cannot come.
_LEAST_LOGPROB = -9999.0


class Shape(Protocol):
    """The form of one response."""

    @property
    def job(self) -> Job:
        """What is being answered."""
        ...

    def whole(self, answers: Sequence[Answer]) -> BaseModel:
        """Body of a response that is not streamed."""
        ...

    def opening(self) -> Iterator[BaseModel]:
        """Chunks before the first token."""
        ...

    def chunks(self, position: int, delta: Delta) -> Iterator[BaseModel]:
        """Chunks for what came of one answer."""
        ...

    def counts(self, answers: Sequence[Answer]) -> BaseModel:
        """The chunk with the token counts."""
        ...


def finite(logprob: float) -> float:
    """A log-probability that JSON can carry."""
    return max(logprob, _LEAST_LOGPROB)


class TextOffsets:
    """Where the tokens of one answer begin in its text, in characters."""

    def __init__(self, tokenizer: Tokenizer, start: int = 0) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = start
        self._first = True

    def add(self, token_id: int) -> int:
        """Offset of the next token; a token inside a character has the offset of that character."""
        offset = self._offset
        if token_id not in self._tokenizer.special_ids:
            text = self._tokenizer.token_bytes(token_id)
            if self._first and text.startswith(b" ") and not self._tokenizer.decode([token_id]).startswith(" "):
                text = text[1:]  # a SentencePiece tokenizer takes the first space for its own
            self._offset += len(self._decoder.decode(text))
            self._first = False
        return offset

"""The chat form of a response: messages, and log-probabilities as a list of tokens.

Knows no transport. Invariant: the bytes of the tokens, put together, are the bytes of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3.engine.answer import Answer, TokenLogprobs
from eagle3.engine.interface import Delta
from eagle3.models.tokenizer import Tokenizer
from eagle3.server.job import Job
from eagle3.server.openai_responses import (
    AnswerMessage,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatCompletion,
    ChatDelta,
    ChatLogprobs,
    FinishReason,
    TokenLogprob,
    TopLogprob,
)
from eagle3.server.shape import finite


class ChatShape:
    """Bodies of /v1/chat/completions."""

    def __init__(self, job: Job, tokenizer: Tokenizer) -> None:
        self.job = job
        self._tokenizer = tokenizer

    def whole(self, answers: Sequence[Answer]) -> ChatCompletion:
        """Body of a response that is not streamed."""
        choices = [
            ChatChoice(
                index=index,
                message=AnswerMessage(role="assistant", content=answer.text, refusal=None),
                logprobs=self._logprobs(answer.logprobs),
                finish_reason=answer.finish_reason,
            )
            for index, answer in enumerate(answers)
        ]
        return ChatCompletion(
            id=self.job.answer_id,
            object="chat.completion",
            created=self.job.created,
            model=self.job.model,
            system_fingerprint=self.job.fingerprint,
            choices=choices,
            usage=self.job.usage(answers),
        )

    def opening(self) -> Iterator[ChatChunk]:
        """A chunk for each answer that names the role."""
        for index in range(len(self.job.requests)):
            yield self._chunk(index, ChatDelta(role="assistant", content=""))

    def chunks(self, position: int, delta: Delta) -> Iterator[ChatChunk]:
        """What is new, then why the answer ended, each in a chunk of its own."""
        if delta.text or delta.logprobs:
            yield self._chunk(position, ChatDelta(content=delta.text), logprobs=self._logprobs(delta.logprobs))
        if delta.answer is not None:
            yield self._chunk(position, ChatDelta(), finish_reason=delta.answer.finish_reason)

    def counts(self, answers: Sequence[Answer]) -> ChatChunk:
        """The chunk with the token counts."""
        body = self._body([])
        body.usage = self.job.usage(answers)
        return body

    def _chunk(
        self,
        index: int,
        delta: ChatDelta,
        *,
        logprobs: ChatLogprobs | None = None,
        finish_reason: FinishReason | None = None,
    ) -> ChatChunk:
        choice = ChatChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=finish_reason)
        body = self._body([choice])
        if self.job.include_usage:
            body.usage = None  # set, so that the chunk says null, as OpenAI's does
        return body

    def _body(self, choices: list[ChatChunkChoice]) -> ChatChunk:
        return ChatChunk(
            id=self.job.answer_id,
            object="chat.completion.chunk",
            created=self.job.created,
            model=self.job.model,
            system_fingerprint=self.job.fingerprint,
            choices=choices,
        )

    def _logprobs(self, entries: Sequence[TokenLogprobs] | None) -> ChatLogprobs | None:
        if not self.job.logprobs:
            return None
        content = [
            TokenLogprob(
                **self._top(entry.token_id, entry.logprob).model_dump(),
                top_logprobs=[self._top(token_id, logprob) for token_id, logprob in entry.top],
            )
            for entry in entries or ()
        ]
        return ChatLogprobs(content=content, refusal=None)

    def _top(self, token_id: int, logprob: float) -> TopLogprob:
        text = self._tokenizer.token_bytes(token_id)
        return TopLogprob(token=text.decode(errors="replace"), logprob=finite(logprob), bytes=list(text))

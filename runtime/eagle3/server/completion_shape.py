"""The completion form of a response: text, and log-probabilities as parallel lists.

Knows no transport. Invariant: each list of the log-probabilities has one entry per token that was emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle3.engine.answer import Answer, TokenLogprobs
from eagle3.engine.interface import Delta
from eagle3.models.tokenizer import Tokenizer
from eagle3.server.job import Job
from eagle3.server.openai_responses import Completion, CompletionChoice, CompletionLogprobs
from eagle3.server.shape import TextOffsets, finite


class CompletionShape:
    """Bodies of /v1/completions."""

    def __init__(self, job: Job, tokenizer: Tokenizer) -> None:
        self.job = job
        self._tokenizer = tokenizer
        self._offsets: dict[int, TextOffsets] = {}  # by choice

    def whole(self, answers: Sequence[Answer]) -> Completion:
        """Body of a response that is not streamed."""
        choices = [
            CompletionChoice(
                text=self._echo(index) + answer.text,
                index=index,
                logprobs=self._logprobs(index, answer.logprobs, most=len(answer.text)),
                finish_reason=answer.finish_reason,
            )
            for index, answer in enumerate(answers)
        ]
        body = self._body(choices)
        body.usage = self.job.usage(answers)
        return body

    def opening(self) -> Iterator[Completion]:
        """The prompts, where they are to be echoed."""
        for index, text in enumerate(self.job.echo):
            yield self._chunk([CompletionChoice(text=text, index=index, logprobs=None, finish_reason=None)])

    def chunks(self, position: int, delta: Delta) -> Iterator[Completion]:
        """One chunk, unless there is nothing to say."""
        if delta.text or delta.logprobs or delta.answer is not None:
            choice = CompletionChoice(
                text=delta.text,
                index=position,
                logprobs=self._logprobs(position, delta.logprobs),
                finish_reason=None if delta.answer is None else delta.answer.finish_reason,
            )
            yield self._chunk([choice])

    def counts(self, answers: Sequence[Answer]) -> Completion:
        """The chunk with the token counts."""
        body = self._body([])
        body.usage = self.job.usage(answers)
        return body

    def _chunk(self, choices: list[CompletionChoice]) -> Completion:
        body = self._body(choices)
        if self.job.include_usage:
            body.usage = None  # set, so that the chunk says null, as OpenAI's does
        return body

    def _body(self, choices: list[CompletionChoice]) -> Completion:
        return Completion(
            id=self.job.answer_id,
            object="text_completion",
            created=self.job.created,
            model=self.job.model,
            system_fingerprint=self.job.fingerprint,
            choices=choices,
        )

    def _echo(self, index: int) -> str:
        return self.job.echo[index] if self.job.echo else ""

    def _logprobs(
        self, index: int, entries: Sequence[TokenLogprobs] | None, *, most: int | None = None
    ) -> CompletionLogprobs | None:
        """`most`: characters of the text, which a stop string may have made shorter than its tokens."""
        if not self.job.logprobs:
            return None
        offsets = self._offsets.setdefault(index, TextOffsets(self._tokenizer))
        places = [offsets.add(entry.token_id) for entry in entries or ()]
        return CompletionLogprobs(
            tokens=[self._name(entry.token_id) for entry in entries or ()],
            token_logprobs=[finite(entry.logprob) for entry in entries or ()],
            top_logprobs=[self._top(entry) for entry in entries or ()],
            text_offset=places if most is None else [min(place, most) for place in places],
        )

    def _top(self, entry: TokenLogprobs) -> dict[str, float]:
        """The most probable tokens, and the emitted one if it is not among them."""
        named = {self._name(token_id): finite(logprob) for token_id, logprob in entry.top}
        named.setdefault(self._name(entry.token_id), finite(entry.logprob))
        return named

    def _name(self, token_id: int) -> str:
        """Text of a token; its bytes in OpenAI's notation where it is part of a character, so that names differ."""
        text = self._tokenizer.token_bytes(token_id)
        try:
            return text.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in text)

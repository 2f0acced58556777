"""The Python API: load a target and its draft once, then generate.

    from eagle3 import LLM, sampling_params
    answer = LLM.embedded().chat([{"role": "user", "content": "Hello"}], sampling_params(max_new_tokens=64))[0]

Everything asked for in one call is generated together. Knows no HTTP and no command line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.engine import EngineSettings
from eagle3.config.speculation import Speculation
from eagle3.engine.answer import Answer, Piece
from eagle3.engine.batch import Event, Failure
from eagle3.engine.interface import GenerationRequest
from eagle3.engine.loading import Models, build_engine, load_models
from eagle3.engine.policy import FixedPolicy
from eagle3.models.draft import Draft
from eagle3.models.target import Target
from eagle3.models.tokenizer import Message, Tokenizer
from eagle3.sampling.params import SamplingParams

# Answers that are made at a time; the cache has room for as many of full length if memory allows it.
_MOST_AT_ONCE = 16


class LLM:
    """A target with an optional EAGLE-3 draft; `draft` None decodes plainly."""

    def __init__(
        self,
        target: Target,
        tokenizer: Tokenizer,
        draft: Draft | None = None,
        speculation: Speculation | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self.target = target
        self.tokenizer = tokenizer
        self.draft = draft
        self.speculation = speculation or Speculation()
        self._engine = build_engine(
            Models(target=target, tokenizer=tokenizer, draft=draft),
            settings=settings or EngineSettings(),
            shape=self.speculation,
            max_running=_MOST_AT_ONCE,
            policy=lambda _: FixedPolicy(self.speculation),
        )
        self._numbers = itertools.count()
        self._events: dict[str, list[Event]] = {}

    @classmethod
    def from_config(cls, config: DeploymentConfig) -> LLM:
        """Load what a config names; every file error is a WeightsError, every contradiction a ConfigError."""
        models = load_models(config)
        return cls(models.target, models.tokenizer, models.draft, config.speculation, config.engine)

    @classmethod
    def embedded(cls, speculation: Speculation | None = None) -> LLM:
        """The embedded default: SmolLM2-135M-Instruct with the shipped draft, float32, on the CPU."""
        return cls.from_config(DeploymentConfig(speculation=speculation or Speculation()))

    def generate(
        self, prompts: Sequence[str], params: SamplingParams | None = None, *, speculate: bool = True
    ) -> list[list[Answer]]:
        """Continue raw texts; `params.n` answers for each prompt, in order."""
        params = params or SamplingParams()
        answers = self._answers([self.tokenizer.encode(prompt) for prompt in prompts], params, speculate)
        return [answers[first : first + params.n] for first in range(0, len(answers), params.n)]

    def chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None, *, speculate: bool = True
    ) -> list[Answer]:
        """Answer one conversation under the model's chat template; `params.n` answers."""
        return self._answers([self.tokenizer.encode_chat(messages)], params or SamplingParams(), speculate)

    def stream(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, index: int = 0, speculate: bool = True
    ) -> Iterator[Piece]:
        """Yield the answer number `index` to a tokenised prompt as its text becomes certain."""
        request_id = self._submit(prompt_ids, params, index, speculate)
        try:
            yield from self._pieces(request_id)
        finally:
            self._withdraw(request_id)

    def _answers(self, prompts: Sequence[Sequence[int]], params: SamplingParams, speculate: bool) -> list[Answer]:
        """Submit everything, then wait for each answer in turn: all of them are made together."""
        submitted: list[str] = []
        try:
            for prompt_ids in prompts:
                submitted.extend(self._submit(prompt_ids, params, index, speculate) for index in range(params.n))
            return [self._last(request_id) for request_id in submitted]
        finally:
            for request_id in submitted:
                self._withdraw(request_id)

    def _submit(self, prompt_ids: Sequence[int], params: SamplingParams, index: int, speculate: bool) -> str:
        request_id = str(next(self._numbers))
        self._engine.add(
            GenerationRequest(
                request_id=request_id, prompt_ids=tuple(prompt_ids), params=params, index=index, speculate=speculate
            )
        )
        self._events[request_id] = []
        return request_id

    def _withdraw(self, request_id: str) -> None:
        self._engine.abort(request_id)
        self._events.pop(request_id, None)

    def _last(self, request_id: str) -> Answer:
        *_, piece = self._pieces(request_id)
        assert piece.answer is not None, "the last piece carries the answer"
        return piece.answer

    def _pieces(self, request_id: str) -> Iterator[Piece]:
        while True:
            events, self._events[request_id] = self._events[request_id], []
            for event in events:
                if isinstance(event, Failure):
                    raise event.error
                if event.text or event.answer is not None:
                    yield Piece(event.text, event.answer)
                if event.answer is not None:
                    return
            for event in self._engine.step():
                self._events[event.request_id].append(event)

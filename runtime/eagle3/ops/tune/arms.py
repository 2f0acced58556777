"""Really decodes: plainly and with chosen shapes, in turns, so that a ratio compares like with like on a noisy machine.

Every shape has an engine of its own on the same weights, with a cache just large enough. Knows no files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from eagle3.config.engine import EngineSettings
from eagle3.config.speculation import MAX_NODES, Speculation
from eagle3.engine.answer import Answer
from eagle3.engine.cycle import StepRunner
from eagle3.engine.llm import LLM
from eagle3.engine.loading import Models, build_engine
from eagle3.engine.policy import FixedPolicy
from eagle3.engine.stats import DecodeStats
from eagle3.sampling.params import SamplingParams


@dataclass(frozen=True, kw_only=True, slots=True)
class Workplace:
    """The models, and how much one answer needs."""

    models: Models
    settings: EngineSettings
    params: SamplingParams

    @classmethod
    def roomy(cls, models: Models, settings: EngineSettings, params: SamplingParams, longest: int) -> Workplace:
        """Caches for prompts of up to `longest` tokens and their answers, whatever the shape."""
        slots = longest + params.max_new_tokens + MAX_NODES + 4 * settings.block_tokens
        update = {"cache_tokens": slots, "prefix_reuse": False}
        return cls(models=models, settings=settings.model_copy(update=update), params=params)

    def runner(self, shape: Speculation) -> StepRunner:
        """A step runner by itself, to time passes with."""
        runners: list[StepRunner] = []

        def policy(runner: StepRunner) -> FixedPolicy:
            runners.append(runner)
            return FixedPolicy(None)

        build_engine(self.models, settings=self.settings, shape=shape, max_running=1, policy=policy)
        return runners[0]

    def arm(self, shape: Speculation | None) -> Arm:
        """A way to decode; None is plainly."""
        draft = self.models.draft if shape is not None and "eagle3" in shape.drafters else None
        plain = Speculation(drafters=("eagle3",))  # nobody guesses without the draft
        llm = LLM(self.models.target, self.models.tokenizer, draft, shape or plain, self.settings)
        return Arm(shape=shape, llm=llm)


@dataclass(slots=True)
class Arm:
    """One way to decode, and what it took so far."""

    shape: Speculation | None
    llm: LLM
    stats: DecodeStats = field(default_factory=DecodeStats)
    seconds_per_token: list[float] = field(default_factory=list)
    """Of each answer whose cycles gave anything, its prompt's reading left out."""

    def answer(self, prompt_ids: Sequence[int], params: SamplingParams) -> Answer:
        """Answer one prompt."""
        *_, piece = self.llm.stream(prompt_ids, params)
        assert piece.answer is not None, "the last piece carries the answer"
        return piece.answer

    def decode(self, prompt_ids: Sequence[int], params: SamplingParams) -> Answer:
        """Answer one prompt, and count it."""
        answer = self.answer(prompt_ids, params)
        stats = answer.stats
        self.stats.add(stats)
        if stats.cycle_tokens:
            self.seconds_per_token.append(cycle_seconds(stats) / stats.cycle_tokens)
        return answer

    def ratio_to(self, plain: Arm) -> float:
        """Tokens per second over plain decoding's: the median over the answers, each by its own prompt and turn."""
        pairs = zip(plain.seconds_per_token, self.seconds_per_token, strict=True)
        return median(slow / fast for slow, fast in pairs)

    @property
    def tokens_per_s(self) -> float:
        """Of all cycles so far."""
        return self.stats.cycle_tokens / cycle_seconds(self.stats)


def cycle_seconds(stats: DecodeStats) -> float:
    """Seconds of everything after an answer's first token."""
    return stats.total_s - stats.prefill_s


def decode_in_turns(
    arms: Sequence[Arm],
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    *,
    rounds: int,
    on_answer: Callable[[], None],
) -> None:
    """Every arm answers every prompt `rounds` times; who begins alternates."""
    for turn in range(rounds):
        for number, prompt_ids in enumerate(prompts):
            for arm in arms if (turn + number) % 2 == 0 else reversed(arms):
                arm.decode(prompt_ids, params)
                on_answer()

"""Finds the speculation that is fastest here, on these prompts: measures passes, records guesses, predicts, confirms.

Knows no files and no command line. Invariant: what is chosen was really decoded with, and plain decoding was beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eagle3.config.speculation import Speculation
from eagle3.engine.stats import DecodeStats
from eagle3.errors import InvalidInputError
from eagle3.ops.tune.arms import Arm, Workplace, cycle_seconds, decode_in_turns
from eagle3.ops.tune.costs import PassCosts, measure_passes
from eagle3.ops.tune.grid import DEEPEST, WIDEST, Overheads, Prediction, best_different, predict, shapes
from eagle3.ops.tune.recording import AnsweredPrompt, Recorder
from eagle3.ops.tune.replay import Replay

_REPEATS = 9
_CONFIRMED_SHAPES = 3
_CONFIRMED_PROMPTS = 4
_ROUNDS = 2
# A shape that wins by less may as well have been lucky, and plain decoding needs no draft in memory.
_CLEARLY = 1.02
# What is decoded with to learn what a cycle takes beside its passes: nothing special.
_USUAL = {"depth": 4, "top_k": 4, "nodes": 10, "min_probability": 0.0}

# Told of every bit of work: what it belongs to.
OnProgress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmed:
    """A shape that was decoded with."""

    prediction: Prediction
    ratio: float
    """Tokens per second over those of plain decoding beside it."""
    tau: float
    tokens_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """What was measured and chosen."""

    costs: PassCosts
    overheads: Overheads
    prompts: int
    tokens: int
    """Tokens of cycles that the predictions are made from."""
    candidates: int
    plain_tokens_per_s: float
    confirmed: tuple[Confirmed, ...]
    """Best first, as measured."""

    @property
    def winner(self) -> Speculation | None:
        """The fastest; None where plain decoding is."""
        best = self.confirmed[0]
        return best.prediction.shape if best.ratio > _CLEARLY else None


def tune(place: Workplace, prompts: Sequence[Sequence[int]], base: Speculation, *, on_progress: OnProgress) -> Tuning:
    """Choose among many shapes; InvalidInputError where the answers are too short to tell anything."""
    has_draft = place.models.draft is not None
    usual = base.model_copy(update=_USUAL | {"drafters": ("eagle3",) if has_draft else ("suffix",)})
    costs = measure_passes(place.runner(usual), repeats=_REPEATS, on_take=lambda: on_progress("passes"))
    plain, spoken = place.arm(None), place.arm(usual)
    texts = []
    for prompt_ids in prompts:  # in turn, so that a disturbance falls on both
        texts.append(_answer(place, plain, prompt_ids))
        spoken.decode(prompt_ids, place.params)
        on_progress("answers")
    if not any(text.cycle_tokens > 0 for text in texts):
        raise InvalidInputError("the answers have one token each, so no cycle can be measured; give other prompts")
    recorder = Recorder(place.models, base.model_copy(update={"depth": DEEPEST, "top_k": WIDEST}))
    recorded = []
    for text in texts:
        recorded.append(recorder.record(text))
        on_progress("guesses")
    replay = Replay(recorded, verify=costs.verify(), draft=costs.draft())
    overheads = _overheads(replay, usual, plain.stats, spoken.stats)
    candidates = list(shapes(base, has_draft=has_draft))
    predictions = predict(replay, candidates, overheads, on_shape=lambda: None)
    on_progress("predictions")
    confirmed, plain_rate = _confirm(place, prompts, best_different(predictions, _CONFIRMED_SHAPES), on_progress)
    return Tuning(
        costs=costs,
        overheads=overheads,
        prompts=len(prompts),
        tokens=sum(text.cycle_tokens for text in texts),
        candidates=len(candidates),
        plain_tokens_per_s=plain_rate,
        confirmed=tuple(sorted(confirmed, key=lambda one: -one.ratio)),
    )


def _answer(place: Workplace, plain: Arm, prompt_ids: Sequence[int]) -> AnsweredPrompt:
    room = place.models.target.arch.max_position - len(prompt_ids)
    answer = plain.decode(prompt_ids, place.params)
    return AnsweredPrompt(
        prompt_ids=tuple(prompt_ids),
        answer_ids=answer.token_ids,
        max_tokens=min(place.params.max_new_tokens, room),
    )


def _overheads(replay: Replay, usual: Speculation, plain: DecodeStats, spoken: DecodeStats) -> Overheads:
    """What cycles took beyond the cost of their passes, on average; never below zero."""
    from_passes = replay.run(usual, usual.drafters)
    plainly = replay.run(usual, ())
    return Overheads(
        speculative_s=max(0.0, cycle_seconds(spoken) / spoken.cycles - from_passes.seconds / from_passes.cycles),
        plain_s=max(0.0, cycle_seconds(plain) / plain.cycles - plainly.seconds / plainly.cycles),
    )


def _confirm(
    place: Workplace, prompts: Sequence[Sequence[int]], predictions: Sequence[Prediction], on_progress: OnProgress
) -> tuple[list[Confirmed], float]:
    plain = place.arm(None)
    arms = [place.arm(prediction.shape) for prediction in predictions]
    chosen = prompts[:_CONFIRMED_PROMPTS]
    # The first answer of each is slower: memory is touched for the first time.
    for arm in (plain, *arms):
        arm.answer(chosen[0], place.params)
    decode_in_turns([plain, *arms], chosen, place.params, rounds=_ROUNDS, on_answer=lambda: on_progress("confirmation"))
    confirmed = [
        Confirmed(prediction=prediction, ratio=arm.ratio_to(plain), tau=arm.stats.tau, tokens_per_s=arm.tokens_per_s)
        for prediction, arm in zip(predictions, arms, strict=True)
    ]
    return confirmed, plain.tokens_per_s


def steps(prompts: int) -> int:
    """How often `tune` tells of progress."""
    confirmation = _ROUNDS * min(prompts, _CONFIRMED_PROMPTS) * (1 + _CONFIRMED_SHAPES)
    return (_REPEATS + 1) + prompts + prompts + 1 + confirmation

"""The shapes that are tried on paper, and their order by predicted speed. Knows no texts and no models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eagle3.config.speculation import Drafter, Speculation
from eagle3.ops.tune.replay import Replay, Replayed

DEEPEST, WIDEST = 8, 8
DEPTHS = (1, 2, 3, 4, 5, 6, 8)
TOP_KS = (1, 2, 3, 4, 6, 8)
NODES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48)
PROBABILITIES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True, kw_only=True, slots=True)
class Overheads:
    """Seconds of a cycle beyond its passes: building trees, choosing tokens, attention over long contexts."""

    speculative_s: float
    plain_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """A shape and what it would do."""

    shape: Speculation
    replayed: Replayed
    ratio: float
    """Tokens per second over those of plain decoding."""


def shapes(base: Speculation, *, has_draft: bool) -> Iterator[Speculation]:
    """Every shape to try; `base` gives the rest of its settings."""
    for probability in PROBABILITIES:
        for nodes in NODES:
            update = {"nodes": nodes, "min_probability": probability}
            yield base.model_copy(update={**update, "drafters": ("suffix",)})
            if not has_draft:
                continue
            for depth in DEPTHS:
                for top_k in TOP_KS:
                    if max(depth, top_k) <= nodes <= top_k + (depth - 1) * top_k**2:
                        for drafters in (("eagle3",), ("eagle3", "suffix")):
                            yield base.model_copy(
                                update={**update, "depth": depth, "top_k": top_k, "drafters": drafters}
                            )


def predict(
    replay: Replay, candidates: Sequence[Speculation], overheads: Overheads, *, on_shape: Callable[[], None]
) -> list[Prediction]:
    """Every shape with its predicted ratio to plain decoding, best first."""
    plain = replay.run(Speculation(), ())
    plain_rate = plain.tokens / (plain.seconds + plain.cycles * overheads.plain_s)
    predictions = []
    for shape in candidates:
        replayed = replay.run(shape, shape.drafters)
        rate = replayed.tokens / (replayed.seconds + replayed.cycles * overheads.speculative_s)
        predictions.append(Prediction(shape=shape, replayed=replayed, ratio=rate / plain_rate))
        on_shape()
    return sorted(predictions, key=lambda prediction: -prediction.ratio)


def best_different(predictions: Sequence[Prediction], count: int) -> list[Prediction]:
    """The best, without those that differ from a better one in their depth, top-k or probability alone."""
    chosen: dict[tuple[tuple[Drafter, ...], int], Prediction] = {}
    for prediction in predictions:
        chosen.setdefault((prediction.shape.drafters, prediction.shape.nodes), prediction)
        if len(chosen) == count:
            break
    return list(chosen.values())

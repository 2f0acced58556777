"""How much to speculate at a given load: the full tree, a smaller one, or nothing.

The rate of a shape is the tokens that its cycles are expected to emit over the seconds that a step of it takes at
this load, both measured while serving. Nothing is drafted unless that wins. Knows no models and no requests.
"""

from __future__ import annotations

from typing import Protocol

from eagle3.config.speculation import Speculation
from eagle3.engine.acceptance import AcceptanceEstimate
from eagle3.engine.costs import ENOUGH, StepTimes
from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import Verification

# Speculation has to win by this factor: what is measured is a little uncertain, and plain decoding is certain.
_MARGIN = 1.02
# Steps between two that try something else than the best: what they lose is below a percent.
_EXPLORE_EVERY = 12
_RETRY_EVERY = 96
# A shape is tried only if it is predicted to reach this share of the best rate.
_WORTH_TRYING = 0.85


class SpeculationPolicy(Protocol):
    """Chooses a shape for each step."""

    def choose(self, load: int) -> Speculation | None:
        """Shape of the trees of a step in which `load` sequences decode; None drafts nothing."""
        ...

    def record(
        self,
        load: int,
        shape: Speculation | None,
        seconds: float,
        cycles: list[tuple[DraftTree, Verification]],
    ) -> None:
        """Learn from a step that only decoded."""
        ...


class FixedPolicy:
    """Always the same shape."""

    def __init__(self, shape: Speculation | None) -> None:
        self._shape = shape

    def choose(self, load: int) -> Speculation | None:
        del load
        return self._shape

    def record(
        self,
        load: int,
        shape: Speculation | None,
        seconds: float,
        cycles: list[tuple[DraftTree, Verification]],
    ) -> None:
        """Nothing to learn."""


class AdaptivePolicy:
    """The shape with the best measured rate, among the full one, smaller ones and none."""

    def __init__(self, full: Speculation, times: StepTimes) -> None:
        self._off_threshold = full.off_threshold
        self.shapes = smaller_shapes(full)
        self.acceptance = AcceptanceEstimate(self.shapes)
        self._times = times
        self._steps = 0

    def choose(self, load: int) -> Speculation | None:
        if load < 1 or (self._off_threshold is not None and load > self._off_threshold):
            return None
        self._steps += 1
        rates = {shape: self._rate(load, shape) for shape in (*self.shapes, None)}
        best = max(self.shapes, key=lambda shape: rates[shape])
        choice = best if rates[best] > _MARGIN * rates[None] else None
        if self._steps % _RETRY_EVERY == 0:
            return None if choice is not None else best
        if self._steps % _EXPLORE_EVERY == 0:
            least = _WORTH_TRYING * rates[choice]
            unknown = [s for s in rates if rates[s] >= least and self._times.samples(load, s) < ENOUGH]
            if unknown:
                return max(unknown, key=lambda shape: rates[shape])
        return choice

    def record(
        self,
        load: int,
        shape: Speculation | None,
        seconds: float,
        cycles: list[tuple[DraftTree, Verification]],
    ) -> None:
        self._times.record(load, shape, seconds)
        if shape is not None:
            for tree, outcome in cycles:
                self.acceptance.observe(shape, tree, outcome)

    def _rate(self, load: int, shape: Speculation | None) -> float:
        tau = 1.0 if shape is None else self.acceptance.tau(shape)
        return load * tau / self._times.seconds(load, shape)


def smaller_shapes(full: Speculation) -> list[Speculation]:
    """The full shape and smaller ones, each about two thirds of the one before, down to a single node."""
    shapes: list[Speculation] = []
    nodes = full.nodes
    while nodes >= 1:
        shapes.append(
            full.model_copy(update={"nodes": nodes, "depth": min(full.depth, nodes), "top_k": min(full.top_k, nodes)})
        )
        nodes = nodes - max(1, nodes // 3)
    return shapes

"""How much to speculate at a given load (the full tree, a smaller one, or nothing), and how much of prompts to read.

The rate of a shape is the tokens that its cycles are expected to emit over the seconds that a step of it takes at
this load, both measured while serving. Nothing is drafted unless that wins. Knows no models and no requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eagle3.config.speculation import Speculation
from eagle3.engine.acceptance import AcceptanceEstimate
from eagle3.engine.costs import ENOUGH, StepTimes
from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import Verification

# Speculation has to win by this factor: plain decoding is certain, what is measured is not, and more rows a step
# also make the steps longer in which prompts are read.
_MARGIN = 1.05
# Steps between two that try something else than the best: what they lose is below a percent.
_EXPLORE_EVERY = 12
_RETRY_EVERY = 96
# Tries in a row of what turned out better than thought: enough for its median to turn.
_MOST_REPEATED = 8
# Seconds that a step may take for the sake of prompts while others wait for their next token.
_STALL_S = 0.2
# A shape is tried only if it is predicted to reach this share of the best rate.
_WORTH_TRYING = 0.85


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedStep:
    """What a step that only decoded took and gave."""

    load: int
    """Sequences that decoded."""
    shape: Speculation | None
    """What was drafted for each of them."""
    seconds: float
    cycles: Sequence[tuple[DraftTree, Verification]]


class SpeculationPolicy(Protocol):
    """Chooses what each step does."""

    def choose(self, load: int, beside: int = 0) -> Speculation | None:
        """Shape of the trees of a step in which `load` sequences decode; None drafts nothing.

        `beside` is how many tokens of prompts the step reads besides, as far as that is known.
        """
        ...

    def prompt_tokens(self, load: int) -> int | None:
        """Tokens of prompts that a step reads at most beside `load` sequences that decode; None: no opinion."""
        ...

    def record(self, step: DecodedStep) -> None:
        """Learn from a step that only decoded."""
        ...


class FixedPolicy:
    """Always the same shape."""

    def __init__(self, shape: Speculation | None) -> None:
        self._shape = shape

    def choose(self, load: int, beside: int = 0) -> Speculation | None:
        del load, beside
        return self._shape

    def prompt_tokens(self, load: int) -> int | None:
        del load
        return None

    def record(self, step: DecodedStep) -> None:
        """Nothing to learn."""


class AdaptivePolicy:
    """The shape with the best measured rate, among the full one, smaller ones and none."""

    def __init__(self, full: Speculation, times: StepTimes) -> None:
        self._off_threshold = full.off_threshold
        self.shapes = smaller_shapes(full)
        self.acceptance = AcceptanceEstimate(self.shapes)
        self._times = times
        self._steps = 0
        self._usual: Speculation | None = None
        self._retrying = False
        self._repeats = 0

    def choose(self, load: int, beside: int = 0) -> Speculation | None:
        if load < 1 or (self._off_threshold is not None and load > self._off_threshold):
            return None
        rates = {shape: self._rate(load, shape) for shape in (*self.shapes, None)}
        best = max(self.shapes, key=lambda shape: rates[shape])
        choice = best if rates[best] > _MARGIN * rates[None] else None
        if beside:  # nothing is learnt from such a step, so nothing is tried in it
            return self._beside_prompts(load, beside, price=rates[choice])
        self._steps += 1
        self._usual = choice
        self._retrying = self._steps % _RETRY_EVERY == 0 or self._repeats > 0
        if self._retrying:
            return None if choice is not None else best
        if self._steps % _EXPLORE_EVERY == 0:
            least = _WORTH_TRYING * rates[choice]
            unknown = [s for s in rates if rates[s] >= least and self._times.samples(load, s) < ENOUGH]
            if unknown:
                return max(unknown, key=lambda shape: rates[shape])
        return choice

    def prompt_tokens(self, load: int) -> int | None:
        return self._times.rows_within(_STALL_S) if load else None

    def record(self, step: DecodedStep) -> None:
        seconds = self._times.record(step.load, step.shape, step.seconds, [tree for tree, _ in step.cycles])
        if step.shape is not None:
            for tree, outcome in step.cycles:
                self.acceptance.observe(step.shape, tree, outcome)
        if not self._retrying:
            return
        # A median takes many steps to turn; a retry that went well is worth repeating until it has turned.
        went_well = step.load * self._tau(step.shape) / seconds > self._rate(step.load, self._usual)
        self._repeats = self._repeats + 1 if went_well and self._repeats < _MOST_REPEATED else 0

    def _tau(self, shape: Speculation | None) -> float:
        return 1.0 if shape is None else self.acceptance.tau(shape)

    def _beside_prompts(self, load: int, beside: int, *, price: float) -> Speculation | None:
        """The shape whose tokens are worth most over what its rows cost; a second is worth `price` tokens.

        The prompts have to be read in any case, so more decoding in their step only pays if it is cheaper there than
        in a step of its own.
        """

        def worth(shape: Speculation | None) -> float:
            return load * self._tau(shape) - price * self._times.seconds(load, shape, beside)

        return max((None, *self.shapes), key=worth)

    def _rate(self, load: int, shape: Speculation | None) -> float:
        return load * self._tau(shape) / self._times.seconds(load, shape)


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

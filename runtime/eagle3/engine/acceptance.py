"""What smaller trees would have accepted, learnt from the trees that were verified.

The best n nodes of a tree, grafted ones among them, are the tree of n nodes, so one verification of a large tree tells
how every smaller one would have fared. Knows no time and no models. Invariant: that holds as long as shapes differ in
their nodes alone, each as deep as the first or as its nodes allow; improbable nodes are left out of every shape alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eagle3.config.speculation import Speculation
from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import Verification

# Cycles over which the estimate forgets: long enough to be steady, short enough to follow a change of texts.
_MEMORY = 300
# Cycles that the first guess weighs.
_PRIOR_CYCLES = 10


class AcceptanceEstimate:
    """Tokens per cycle to expect of each of several shapes, the largest first."""

    def __init__(self, shapes: Sequence[Speculation]) -> None:
        self._shapes = tuple(shapes)
        assert all(s.depth == min(s.nodes, shapes[0].depth) for s in shapes[1:]), "a smaller tree is not cut in depth"
        self._tau = [1.0 + 0.5 * math.log2(1 + shape.nodes) for shape in shapes]
        self._cycles = [_PRIOR_CYCLES] * len(self._shapes)

    def tau(self, shape: Speculation) -> float:
        """Expected tokens per cycle, the bonus token included."""
        return self._tau[self._shapes.index(shape)]

    def observe(self, shape: Speculation, tree: DraftTree, outcome: Verification) -> None:
        """Learn from one cycle that was asked to draft `shape`."""
        if outcome.num_accepted:
            ranks = tree.ranks()
            accepted = [ranks[node] for node in outcome.path[1:]]
        else:
            accepted = []
        for index, smaller in enumerate(self._shapes):
            if smaller.nodes > shape.nodes or smaller.depth > shape.depth:
                continue  # what a larger tree would have done does not show
            length = 0
            for rank in accepted:
                if rank > smaller.nodes:
                    break
                length += 1
            self._cycles[index] = min(self._cycles[index] + 1, _MEMORY)
            self._tau[index] += (1 + length - self._tau[index]) / self._cycles[index]

"""What the drafters would have guessed at one place of a known text, in full: every smaller tree can be cut from it.

Knows no models and no tokens: of the text it keeps which nodes are right. Invariant: nodes are those of a `DraftTree`
grown without limits, the root left out; the grafted ones come first. N nodes, P places, R right nodes, L levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from eagle3.tree.chain import Chain
from eagle3.tree.draft_tree import DraftTree

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainGuess:
    """A guess of the suffix drafter."""

    log_probs: tuple[float, ...]
    num_right: int
    """Tokens from the first one on that the text goes on with."""
    expected_accepted: float

    @classmethod
    def of(cls, chain: Chain, following: Sequence[int]) -> ChainGuess:
        """What is kept of a chain at a place that the tokens `following` come after."""
        right = 0
        while right < min(len(chain), len(following)) and chain.token_ids[right] == following[right]:
            right += 1
        return cls(log_probs=chain.log_probs, num_right=right, expected_accepted=chain.expected_accepted)

    def scores(self) -> Floats:
        """Score of each node of the chain."""
        return np.fromiter(accumulate(self.log_probs), np.float64)


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeGuess:
    """A tree grown by the draft, with a chain grafted onto it or without."""

    scores_N: Floats
    parents_N: Whole
    """Node of each node's parent, -1 for the root."""
    depths_N: Whole
    siblings_N: Whole
    """How many of the draft's own nodes with the same parent come first; 0 for what is grafted."""
    right: tuple[int, ...]
    """Nodes that the text goes on with, from depth 1 downwards."""
    chain: ChainGuess | None
    """What was grafted: the node of its token t is t."""

    @classmethod
    def of(cls, tree: DraftTree, following: Sequence[int], chain: ChainGuess | None) -> TreeGuess:
        """What is kept of a tree at a place that the tokens `following` come after."""
        right: list[int] = []
        node = 0
        for token_id in following:
            child = tree.child(node, token_id)
            if child is None:
                break
            right.append(child - 1)
            node = child
        scores_N = np.array(tree.scores[1:], np.float64)
        parents_N = np.array(tree.parents[1:], np.int64) - 1
        siblings_N = np.zeros(len(scores_N), np.int64)
        first = len(chain.log_probs) if chain else 0
        order = first + np.lexsort((-scores_N[first:], parents_N[first:]))
        parents = parents_N[order]
        siblings_N[order] = np.arange(len(order)) - np.searchsorted(parents, parents)
        return cls(
            scores_N=scores_N,
            parents_N=parents_N,
            depths_N=np.array(tree.depths[1:], np.int64),
            siblings_N=siblings_N,
            right=tuple(right),
            chain=chain,
        )

    @property
    def num_grafted(self) -> int:
        """Nodes of the chain."""
        return len(self.chain.log_probs) if self.chain else 0

    def beam(self, top_k: int) -> tuple[NDArray[np.bool_], list[Whole]]:
        """Which nodes a draft with `top_k` children a node would have had, and its frontier of each level.

        Exact for the number that the tree was grown with. With fewer, a node below one that the wider frontier left
        out is missing.
        """
        size = len(self.scores_N)
        there = np.zeros(size, bool)
        there[: self.num_grafted] = True
        frontiers: list[Whole] = []
        frontier = np.array([-1])
        for depth in range(1, int(self.depths_N.max(initial=0)) + 1):
            level = np.flatnonzero((self.depths_N == depth) & np.isin(self.parents_N, frontier))
            born = level[self.siblings_N[level] < top_k]
            there[born] = True
            frontier = born[np.argsort(-self.scores_N[born], kind="stable")][:top_k]
            frontiers.append(frontier)
        return there, frontiers

    def scores_to(self, depth: int) -> Floats:
        """Scores as they are where the draft stops at `depth`: what is grafted deeper is not rescored by it."""
        scores_N = self.scores_N.copy()
        for node in range(max(1, depth), self.num_grafted):
            assert self.chain is not None, "something is grafted"
            scores_N[node] = scores_N[node - 1] + self.chain.log_probs[node]
        return scores_N


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One token of an answer that could be the root of a cycle."""

    limit: int
    """Depth of the deepest node that could still be emitted; 0: nothing is drafted here."""
    alone: ChainGuess | None
    """What the suffix drafter guesses by itself."""
    beside: ChainGuess | None
    """What it guesses beside a draft: it may then leave out more."""
    drafted: TreeGuess | None
    """The draft's tree by itself; None without a draft."""
    joined: TreeGuess | None
    """The same with `beside` grafted; None where there is none of them."""


@dataclass(frozen=True, slots=True)
class RecordedText:
    """The places of one answer, in order; after the last one comes its last token."""

    places: tuple[Place, ...]

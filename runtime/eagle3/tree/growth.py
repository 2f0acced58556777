"""Grows a dynamic draft tree level by level and keeps its most probable nodes (EAGLE-2 paper, section 4).

Knows no models: whoever holds a growth scores its frontier and hands the best children back, so that the
frontiers of many trees can be scored in one pass. K children and frontier nodes, N nodes kept. Invariant: the
kept nodes are closed under parents and at most N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eagle3.config.speculation import Speculation
from eagle3.tree.draft_tree import DraftTree


@dataclass(frozen=True, slots=True)
class Frontier:
    """The nodes of one level whose children are to be scored."""

    token_ids: tuple[int, ...]
    """Target token id of each frontier node."""
    parent_rows: tuple[int, ...]
    """Row of each node's parent in the frontier before; 0 for the first level, whose parent is the root."""
    level: int
    """Depth of the nodes: 1 for the children of the root."""


class TreeGrowth:
    """One tree in the making: `add_level` until it gives no frontier, then `tree`.

    A child's score is its parent's plus its own log-probability, so it never exceeds the parent's; equal
    scores are ordered parent first, which keeps the selection closed under parents.
    """

    def __init__(self, shape: Speculation, root_token_id: int) -> None:
        self._shape = shape
        self._tokens: list[int] = [root_token_id]
        self._parents: list[int] = [0]
        self._scores: list[float] = [0.0]
        self._frontier: list[int] = [0]
        self._level = 0

    def add_level(
        self, log_probs_KC: Sequence[Sequence[float]], token_ids_KC: Sequence[Sequence[int]]
    ) -> Frontier | None:
        """Add the best children of each frontier node, best first; returns the next frontier, None at full depth.

        The first frontier is the root alone. A row holds up to `top_k` log-probabilities and target token ids.
        """
        assert len(log_probs_KC) == len(self._frontier), "one row of children for each frontier node"
        self._level += 1
        born: list[int] = []
        rows: dict[int, int] = {}
        for row, (node, log_probs, token_ids) in enumerate(
            zip(self._frontier, log_probs_KC, token_ids_KC, strict=True)
        ):
            score = self._scores[node]
            for log_prob, token_id in zip(log_probs, token_ids, strict=True):
                rows[len(self._tokens)] = row
                born.append(len(self._tokens))
                self._tokens.append(token_id)
                self._parents.append(node)
                self._scores.append(score + log_prob)
        if self._level == self._shape.depth:
            return None
        self._frontier = self._best(born, self._shape.top_k)
        return Frontier(
            token_ids=tuple(self._tokens[node] for node in self._frontier),
            parent_rows=tuple(rows[node] for node in self._frontier),
            level=self._level,
        )

    def tree(self) -> DraftTree:
        """The best nodes of every level so far, at most `shape.nodes` and the root."""
        # Nodes are in level order, so a parent's index is below its child's: the index breaks ties parent first.
        kept = [0, *sorted(self._best(range(1, len(self._tokens)), self._shape.nodes))]
        new_index = {node: index for index, node in enumerate(kept)}
        return DraftTree(
            token_ids=tuple(self._tokens[node] for node in kept),
            parents=tuple(new_index[self._parents[node]] for node in kept),
            scores=tuple(self._scores[node] for node in kept),
        )

    def _best(self, nodes: Sequence[int], count: int) -> list[int]:
        return sorted(nodes, key=lambda node: (-self._scores[node], node))[:count]

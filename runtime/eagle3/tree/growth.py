"""Grows a dynamic draft tree level by level and keeps its most probable nodes (EAGLE-2 paper, section 4).

A chain that was guessed some other way may be grafted onto the root: its nodes compete with the draft's own, in the
frontiers and for the final places. Knows no models: whoever holds a growth scores its frontier and hands the best
children back, so that the frontiers of many trees can be scored in one pass. K children and frontier nodes, N nodes
kept. Invariant: the kept nodes are closed under parents, at most N, and none is less probable than the shape allows:
they are those of the tree without such a threshold that reach it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from eagle3.config.speculation import Speculation
from eagle3.tree.chain import Chain
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
    scores are ordered parent first, which keeps the selection closed under parents. Where the draft gives a grafted
    node too, the better of both probabilities counts, for the nodes below it as well.
    """

    def __init__(self, shape: Speculation, root_token_id: int, chain: Chain | None = None) -> None:
        self._shape = shape
        self._tokens: list[int] = [root_token_id]
        self._parents: list[int] = [0]
        self._scores: list[float] = [0.0]
        self._frontier: list[int] = [0]
        self._level = 0
        self._least_score = math.log(shape.min_probability) if shape.min_probability else -math.inf
        self._draft_rows: list[int] = []
        # The grafted nodes come first: node d is the one at depth d.
        grafted = () if chain is None else chain.log_probs[: shape.nodes]
        self._grafted = len(grafted)
        self._chain_log_probs = (0.0, *grafted)
        if chain is not None:
            self._tokens += chain.token_ids[: self._grafted]
            self._parents += range(self._grafted)
            self._scores += accumulate(grafted)

    def add_level(
        self, log_probs_KC: Sequence[Sequence[float]], token_ids_KC: Sequence[Sequence[int]]
    ) -> Frontier | None:
        """Add the best children of each frontier node, best first; returns the next frontier.

        None at full depth, and where no node below the frontier is probable enough to be kept. The first frontier is
        the root alone. A row holds up to `top_k` log-probabilities and target token ids.
        """
        assert len(log_probs_KC) == len(self._frontier), "one row of children for each frontier node"
        self._level += 1
        born: list[int] = []
        rows: dict[int, int] = {}
        for row, (node, log_probs, token_ids) in enumerate(
            zip(self._frontier, log_probs_KC, token_ids_KC, strict=True)
        ):
            score = self._scores[node]
            grafted = self._grafted_below(node)
            if grafted:
                rows[grafted] = row
                born.append(grafted)
            for log_prob, token_id in zip(log_probs, token_ids, strict=True):
                if grafted and token_id == self._tokens[grafted]:
                    if score + log_prob > self._scores[grafted]:
                        self._score_grafted(grafted, score + log_prob)
                    continue
                rows[len(self._tokens)] = row
                born.append(len(self._tokens))
                self._tokens.append(token_id)
                self._parents.append(node)
                self._scores.append(score + log_prob)
        if self._level == self._shape.depth:
            return None
        # What is below an improbable node is no more probable, so nothing is drafted there.
        self._frontier = [node for node in self._best(born, self._shape.top_k) if self._is_kept(node)]
        if not self._frontier:
            return None
        self._draft_rows.append(len(self._frontier))
        return Frontier(
            token_ids=tuple(self._tokens[node] for node in self._frontier),
            parent_rows=tuple(rows[node] for node in self._frontier),
            level=self._level,
        )

    def tree(self) -> DraftTree:
        """The best probable nodes of every level so far and of the chain, at most `shape.nodes` and the root."""
        # A parent is born before its children, so its index is below theirs: the index breaks ties parent first.
        probable = [node for node in range(1, len(self._tokens)) if self._is_kept(node)]
        kept = [0, *sorted(self._best(probable, self._shape.nodes))]
        new_index = {node: index for index, node in enumerate(kept)}
        return DraftTree(
            token_ids=tuple(self._tokens[node] for node in kept),
            parents=tuple(new_index[self._parents[node]] for node in kept),
            scores=tuple(self._scores[node] for node in kept),
            draft_rows=tuple(self._draft_rows),
        )

    def _is_kept(self, node: int) -> bool:
        return self._scores[node] >= self._least_score

    def _grafted_below(self, node: int) -> int:
        """The grafted node whose parent is `node`; 0, the root, if there is none."""
        return node + 1 if node < self._grafted else 0

    def _score_grafted(self, grafted: int, score: float) -> None:
        """Score a grafted node and, through it, all that are grafted below it."""
        self._scores[grafted] = score
        for node in range(grafted + 1, self._grafted + 1):
            self._scores[node] = self._scores[node - 1] + self._chain_log_probs[node]

    def _best(self, nodes: Sequence[int], count: int) -> list[int]:
        return sorted(nodes, key=lambda node: (-self._scores[node], node))[:count]

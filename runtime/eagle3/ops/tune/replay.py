"""Runs any shape over recorded texts without a model: how many cycles it takes, of which size, for which tokens.

Exact for shapes with the top-k that was recorded and no more depth, whatever their nodes, drafters and probability:
the cycles are those that decoding would have. With a smaller top-k it is close (`TreeGuess.beam`). Knows no seconds but
those it is given for rows. P places of all texts, R right nodes, L levels, K rows of a frontier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from eagle3.config.speculation import MAX_DEPTH, Drafter, Speculation
from eagle3.ops.tune.guess import Floats, Place, RecordedText, TreeGuess, Whole

# Best nodes of a place that are kept: shapes of more are not replayed.
MOST_NODES = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """What decoding the texts with one shape takes."""

    cycles: int
    tokens: int
    """Tokens that the cycles give."""
    nodes: int
    """Nodes verified, roots not counted."""
    draft_passes: int
    """Passes of the draft below the first level; reading accepted tokens is not one."""
    seconds: float
    """What the rows of all passes cost."""

    @property
    def tau(self) -> float:
        """Tokens per cycle."""
        return self.tokens / self.cycles


@dataclass(frozen=True, slots=True)
class _Ordered:
    """The places under one choice of drafters, depth and top-k, nodes by score, for any nodes and probability."""

    scores_PN: Floats
    """Falling; -inf where there is no more node."""
    right_ranks_PR: Whole
    """Rank of each right node; above every rank where there is none."""
    frontier_PLK: Floats
    """Scores of the nodes whose children are drafted, falling; -inf where there is none."""
    drafts_P: np.ndarray
    """Whether the draft is asked at all."""


class Replay:
    """Recorded texts with the cost of passes."""

    def __init__(
        self, texts: Sequence[RecordedText], *, verify: Callable[[float], float], draft: Callable[[float], float]
    ) -> None:
        self._lengths = [len(text.places) for text in texts]
        self._places: list[Place] = [place for text in texts for place in text.places]
        self._verify_s = np.array([verify(rows) for rows in range(MOST_NODES + 2)])
        self._draft = draft
        self._ordered = cache(self._order)
        self._beam = cache(lambda place, joined, top_k: self._tree(place, joined).beam(top_k))

    def run(self, shape: Speculation, drafters: tuple[Drafter, ...]) -> Replayed:
        """Decode every text with one shape; nobody guesses where `drafters` is empty."""
        assert shape.nodes <= MOST_NODES, "as many nodes as are kept"
        ordered = self._ordered(drafters, shape.depth, shape.top_k)
        least = np.log(shape.min_probability) if shape.min_probability else -np.inf
        there_PN = np.isfinite(ordered.scores_PN) & (ordered.scores_PN >= least)
        nodes_P = np.minimum(there_PN.sum(axis=1), shape.nodes)
        accepted_P = (ordered.right_ranks_PR < nodes_P[:, None]).sum(axis=1)
        rows_PL = (np.isfinite(ordered.frontier_PLK) & (ordered.frontier_PLK >= least)).sum(axis=2)
        draft_s = np.array([0.0, *(self._draft(rows) for rows in range(1, max(MAX_DEPTH, shape.top_k) + 2))])
        levels_s = draft_s[rows_PL].sum(axis=1).tolist()
        passes = (rows_PL > 0).sum(axis=1).tolist()
        verify_s = self._verify_s[nodes_P + 1].tolist()
        nodes, accepted, drafts = nodes_P.tolist(), accepted_P.tolist(), ordered.drafts_P.tolist()
        cycles = tokens = verified = draft_passes = 0
        seconds = 0.0
        at = 0
        for length in self._lengths:
            end, unread = at + length, 0
            while at < end:
                if drafts[at]:
                    seconds += levels_s[at] + (self._draft(unread) if unread else 0.0)
                    draft_passes += passes[at]
                    unread = 0
                step = min(accepted[at] + 1, end - at)
                seconds += verify_s[at]
                verified += nodes[at]
                cycles += 1
                tokens += step
                unread += step
                at += step
        return Replayed(cycles=cycles, tokens=tokens, nodes=verified, draft_passes=draft_passes, seconds=seconds)

    def _tree(self, place: int, joined: bool) -> TreeGuess:
        guess = self._places[place].joined if joined else self._places[place].drafted
        assert guess is not None, "the draft guessed here"
        return guess

    def _order(self, drafters: tuple[Drafter, ...], depth: int, top_k: int) -> _Ordered:
        size = len(self._places)
        scores_PN = np.full((size, MOST_NODES), -np.inf)
        ranks_PR = np.full((size, MAX_DEPTH), MOST_NODES)
        frontier_PLK = np.full((size, max(1, depth - 1), top_k), -np.inf)
        drafts_P = np.zeros(size, bool)
        for index, place in enumerate(self._places):
            chain = place.beside if "eagle3" in drafters else place.alone
            chain = chain if "suffix" in drafters else None
            if "eagle3" not in drafters or (chain is not None and chain.expected_accepted >= depth):
                if chain is not None:
                    scores = chain.scores()[:MOST_NODES]
                    scores_PN[index, : len(scores)] = scores
                    ranks_PR[index, : chain.num_right] = np.arange(chain.num_right)
            elif place.limit:
                drafts_P[index] = True
                self._fill(index, chain is not None, depth, top_k, scores_PN[index], ranks_PR[index], frontier_PLK)
        return _Ordered(scores_PN, ranks_PR, frontier_PLK, drafts_P)

    def _fill(
        self,
        index: int,
        joined: bool,
        depth: int,
        top_k: int,
        scores_N: Floats,
        ranks_R: Whole,
        frontier_PLK: Floats,
    ) -> None:
        """Put down what a tree of the draft gives at one place."""
        tree, limit = self._tree(index, joined), self._places[index].limit
        depth = min(depth, limit)
        there, frontiers = self._beam(index, joined, top_k)
        scores = tree.scores_to(depth)
        grafted = np.arange(len(scores)) < tree.num_grafted
        kept = np.flatnonzero(there & (tree.depths_N <= np.where(grafted, limit, depth)))
        order = kept[np.argsort(-scores[kept], kind="stable")][:MOST_NODES]
        scores_N[: len(order)] = scores[order]
        rank_of = {int(node): rank for rank, node in enumerate(order)}
        for place, node in enumerate(tree.right):
            if node not in rank_of:
                break
            ranks_R[place] = rank_of[node]
        for level, frontier in enumerate(frontiers[: depth - 1]):
            frontier_PLK[index, level, : len(frontier)] = scores[frontier]

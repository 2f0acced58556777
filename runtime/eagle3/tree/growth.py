"""Grows a dynamic draft tree level by level and keeps its most probable nodes (EAGLE-2 paper, section 4).

Knows no models: `expand` is what the caller passes in to score the children of a frontier. K children and
frontier nodes, D levels, N nodes kept. Invariant: the kept nodes are closed under parents and at most N.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

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


# Scores the children of a frontier: log-probabilities over the draft vocabulary, [len(frontier), V].
Expand = Callable[[Frontier], Tensor]


def grow_tree(
    shape: Speculation, root_token_id: int, root_log_probs_V: Tensor, target_ids_V: Tensor, expand: Expand
) -> DraftTree:
    """Draft a tree below `root_token_id`; `target_ids_V` maps draft ids to target ids (int64 [V]).

    A child's score is its parent's plus its own log-probability, so it never exceeds the parent's; equal
    scores are ordered parent first, which keeps the selection closed under parents.
    """
    top_k = min(shape.top_k, len(target_ids_V))
    tokens: list[int] = [root_token_id]
    parents: list[int] = [0]
    scores: list[float] = [0.0]
    frontier_nodes = [0]
    frontier_scores_K = root_log_probs_V.new_zeros(1)
    log_probs_KV = root_log_probs_V[None, :]
    for level in range(1, shape.depth + 1):
        best_KC, draft_ids_KC = log_probs_KV.topk(top_k, dim=-1)
        path_scores_KC = frontier_scores_K[:, None] + best_KC
        first_new = len(tokens)
        tokens += target_ids_V[draft_ids_KC].flatten().tolist()
        scores += path_scores_KC.flatten().tolist()
        for node in frontier_nodes:
            parents += [node] * top_k
        if level == shape.depth:
            break
        flat = path_scores_KC.flatten()
        chosen = _top(flat, top_k)
        frontier = Frontier(
            token_ids=tuple(tokens[first_new + index] for index in chosen),
            parent_rows=tuple(index // top_k for index in chosen),
            level=level,
        )
        frontier_nodes = [first_new + index for index in chosen]
        frontier_scores_K = flat[torch.tensor(chosen)]
        log_probs_KV = expand(frontier)
    return _keep_best(tokens, parents, scores, shape.nodes)


def _top(scores: Tensor, count: int) -> list[int]:
    """Indices of the largest scores, best first, earlier index first among equals."""
    order: list[int] = torch.sort(scores, descending=True, stable=True).indices[:count].tolist()
    return order


def _keep_best(tokens: list[int], parents: list[int], scores: list[float], count: int) -> DraftTree:
    # Nodes are in level order, so a parent's index is below its child's: the index breaks ties parent first.
    ranked = sorted(range(1, len(tokens)), key=lambda node: (-scores[node], node))[:count]
    kept = [0, *sorted(ranked)]
    new_index = {node: index for index, node in enumerate(kept)}
    return DraftTree(
        token_ids=tuple(tokens[node] for node in kept),
        parents=tuple(new_index[parents[node]] for node in kept),
        scores=tuple(scores[node] for node in kept),
    )

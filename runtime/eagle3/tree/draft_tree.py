"""A draft tree: the token sequences that one verification pass checks together.

Knows no models. Node 0 is the root, the last emitted token; parents come before their children; of siblings a grafted
one comes first, then the draft's own in the order in which it prefers them. Invariant (`check_integrity`): every parent
index is smaller than its node's, and siblings carry different tokens. N nodes, root included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Token, parent and score of every node; the root is its own parent."""

    token_ids: tuple[int, ...]
    """Target token id of each node."""
    parents: tuple[int, ...]
    """Parent node of each node; 0 for the root."""
    scores: tuple[float, ...]
    """Log-probability, as far as the drafters know, of the path from the root to each node; 0.0 for the root."""
    draft_rows: tuple[int, ...] = field(default=(), compare=False)
    """Rows of each pass of the draft that it took to grow the tree; no part of what it is."""
    depths: tuple[int, ...] = field(init=False)
    """Distance from the root."""
    _children: tuple[dict[int, int], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        depths = [0]
        children: list[dict[int, int]] = [{} for _ in self.token_ids]
        for node in range(1, len(self.token_ids)):
            parent = self.parents[node]
            assert parent < node, "parents come before their children"
            depths.append(depths[parent] + 1)
            assert self.token_ids[node] not in children[parent], "siblings carry different tokens"
            children[parent][self.token_ids[node]] = node
        object.__setattr__(self, "depths", tuple(depths))
        object.__setattr__(self, "_children", tuple(children))

    @classmethod
    def root_only(cls, token_id: int) -> DraftTree:
        """A tree that verifies nothing: plain decoding."""
        return cls(token_ids=(token_id,), parents=(0,), scores=(0.0,))

    def __len__(self) -> int:
        return len(self.token_ids)

    def child(self, node: int, token_id: int) -> int | None:
        """The child of `node` that carries `token_id`, or None."""
        return self._children[node].get(token_id)

    def ranks(self) -> list[int]:
        """Rank of each node by score, 0 the root: the tree of n nodes holds the ranks 1 to n of any larger one."""
        order = sorted(range(len(self)), key=lambda node: (-self.scores[node], node))
        ranks = [0] * len(order)
        for rank, node in enumerate(order):
            ranks[node] = rank
        return ranks

    def tokens(self, path: Sequence[int]) -> list[int]:
        """Token ids along a path of nodes."""
        return [self.token_ids[node] for node in path]


def ancestor_mask(parents: Sequence[int]) -> Tensor:
    """Bool [N, N]: entry (i, j) says that node j is node i or one of its ancestors. It is transitive."""
    size = len(parents)
    mask = torch.eye(size, dtype=torch.bool)
    for node in range(1, size):
        mask[node] |= mask[parents[node]]
    return mask

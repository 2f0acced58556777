"""Drafts a tree for one sequence: keeps the draft's own KV cache and grows the tree from it.

`observe` tells what the target has accepted, `propose` drafts from there. Draft input i pairs the target's
feature of token i with token i + 1; the KV of tree levels is thrown away after every proposal, since it was
computed from the draft's own hidden states. Knows no sampling. S observed tokens, K frontier nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eagle3.cache.sequence_cache import SequenceCache
from eagle3.config.speculation import Speculation
from eagle3.errors import NumericalError
from eagle3.models.draft import Draft
from eagle3.tree.draft_tree import DraftTree
from eagle3.tree.growth import Frontier, grow_tree


class Proposer:
    """The draft side of one sequence."""

    def __init__(self, draft: Draft, shape: Speculation) -> None:
        self._draft = draft
        self._shape = shape
        config = draft.config
        weight = draft.norm.weight
        self._device = weight.device
        self.cache = SequenceCache(
            num_layers=1,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=weight.dtype,
            device=weight.device,
        )
        self._feedback_1H: Tensor | None = None
        self._log_probs_V: Tensor | None = None

    def observe(self, taps_SF: Tensor, next_ids: Sequence[int]) -> None:
        """Extend the stable cache by accepted tokens: the feature of each and the token that follows it."""
        steps = len(next_ids)
        assert taps_SF.shape[0] == steps, "one following token for each feature"
        positions = torch.arange(self.cache.length, self.cache.length + steps, device=self._device)
        causal = torch.ones(steps, steps, dtype=torch.bool).tril() if steps > 1 else None
        attend = self.cache.reserve(causal)
        hidden = self._draft.fuse(taps_SF[None])
        token_ids = torch.tensor([list(next_ids)], device=self._device)
        output = self._draft(token_ids, hidden, positions[None], attend)
        self.cache.commit(range(steps))
        self._feedback_1H = output.feedback_BSH[0, -1:]
        self._log_probs_V = self._scores(output.normed_BSH[0, -1:])[0]

    def propose(self, root_id: int, max_depth: int) -> DraftTree:
        """Draft a tree below the last emitted token; it is at most `max_depth` levels deep."""
        depth = min(self._shape.depth, max_depth)
        if depth < 1 or self._log_probs_V is None:
            return DraftTree.root_only(root_id)
        feedback_KH = self._feedback_1H
        visible_KR = torch.zeros(1, 0, dtype=torch.bool)

        def expand(frontier: Frontier) -> Tensor:
            nonlocal feedback_KH, visible_KR
            assert feedback_KH is not None
            rows = torch.tensor(frontier.parent_rows)
            visible_KR = torch.cat([visible_KR[rows], torch.eye(len(rows), dtype=torch.bool)], dim=1)
            attend = self.cache.reserve(visible_KR)
            token_ids = torch.tensor([frontier.token_ids], device=self._device)
            positions = torch.full_like(token_ids, self.cache.length + frontier.level - 1)
            output = self._draft(token_ids, feedback_KH[rows.to(self._device)][None], positions, attend)
            feedback_KH = output.feedback_BSH[0]
            return self._scores(output.normed_BSH[0])

        shape = self._shape.model_copy(update={"depth": depth})
        tree = grow_tree(shape, root_id, self._log_probs_V, self._draft.target_ids_V, expand)
        self.cache.rollback()
        return tree

    def _scores(self, normed_KH: Tensor) -> Tensor:
        log_probs_KV = self._draft.logits(normed_KH).float().log_softmax(dim=-1)
        if not bool(torch.isfinite(log_probs_KV.sum())):
            raise NumericalError("the draft produced NaN or infinite logits; check it with `eagle3 draft doctor`")
        return log_probs_KV

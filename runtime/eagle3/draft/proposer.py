"""Drafts trees for many sequences at once, on a paged cache that shares its block tables with the target.

`observe` tells what the target has accepted, `propose` drafts from there. Draft input i pairs the target's
feature of token i with token i + 1; the entries of tree levels lie behind the observed ones and are overwritten
by the next observation, since they were computed from the draft's own hidden states. Knows no sampling.
S observed tokens, K frontier nodes, T rows of a pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eagle3.cache.block_table import BlockTable
from eagle3.cache.paged_cache import PagedCache
from eagle3.cache.sequence_rows import SequenceRows, causal_mask
from eagle3.config.speculation import Speculation
from eagle3.errors import NumericalError
from eagle3.models.draft import Draft, DraftOutput
from eagle3.models.row_draft import RowDraft
from eagle3.tree.chain import Chain
from eagle3.tree.draft_tree import DraftTree
from eagle3.tree.growth import Frontier, TreeGrowth


@dataclass(slots=True)
class DraftState:
    """The draft's side of one sequence."""

    table: BlockTable
    length: int = 0
    """Observed pairs that the draft's cache holds."""
    pending: list[tuple[Tensor, list[int]]] = field(default_factory=list)
    """Pairs not observed yet: features [S, F] and the tokens that follow them."""
    last_feedback_H: Tensor | None = None
    """Hidden state after the last observed pair, which the first level starts from."""
    last_normed_H: Tensor | None = None

    @property
    def pending_rows(self) -> int:
        """Pairs not observed yet."""
        return sum(len(next_ids) for _, next_ids in self.pending)

    def reset(self) -> None:
        """Forget everything: the cache no longer holds it."""
        self.length = 0
        self.pending.clear()
        self.last_feedback_H = None
        self.last_normed_H = None

    def add(self, taps_SF: Tensor, next_ids: Sequence[int]) -> None:
        """Remember accepted tokens: the feature of each and the token that follows it."""
        assert taps_SF.shape[0] == len(next_ids), "one following token for each feature"
        self.pending.append((taps_SF, list(next_ids)))


@dataclass(frozen=True, slots=True)
class Wish:
    """One tree to draft."""

    state: DraftState
    root_id: int
    shape: Speculation
    chain: Chain | None = None
    """What else is guessed, to be grafted onto the tree."""


class Proposer:
    """The draft with the cache of every sequence."""

    def __init__(self, draft: Draft | RowDraft, num_slots: int) -> None:
        self._draft = draft
        config = draft.config
        self._device = draft.device
        self.cache = PagedCache(
            num_slots=num_slots,
            num_layers=1,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            dtype=draft.dtype,
            device=draft.device,
        )

    def observe(self, states: Sequence[DraftState]) -> None:
        """Bring the draft's cache up to date with everything that is pending."""
        states = [state for state in states if state.pending]
        if not states:
            return
        rows: list[SequenceRows] = []
        positions: list[int] = []
        next_ids: list[int] = []
        ends: list[int] = []
        for state in states:
            size = state.pending_rows
            begin, end = state.length, state.length + size
            rows.append(SequenceRows(state.table.slots(0, end), state.table.slots(begin, end), causal_mask(size)))
            positions += range(begin, end)
            for _, ids in state.pending:
                next_ids += ids
            ends.append(len(next_ids) - 1)
        taps_TF = torch.cat([taps for state in states for taps, _ in state.pending])
        hidden = self._draft.fuse(taps_TF[None])
        output = self._draft(
            torch.tensor([next_ids], device=self._device),
            hidden,
            torch.tensor([positions], device=self._device),
            self.cache.attend(rows),
        )
        for state, row in zip(states, ends, strict=True):
            state.length += state.pending_rows
            state.pending.clear()
            # Copies: a view would keep the whole pass alive.
            state.last_feedback_H = output.feedback_BSH[0, row].clone()
            state.last_normed_H = output.normed_BSH[0, row].clone()

    def catch_up(self, states: Sequence[DraftState]) -> None:
        """Observe what is pending but for the last step's tokens: what would be pending had each step drafted."""
        states = [state for state in states if len(state.pending) > 1]
        newest = [state.pending.pop() for state in states]
        self.observe(states)
        for state, pair in zip(states, newest, strict=True):
            state.pending.append(pair)

    def propose(self, wishes: Sequence[Wish]) -> list[DraftTree | NumericalError]:
        """Draft a tree below the last emitted token of each observed sequence; its own error where that fails."""
        growing = [_Growing(wish) for wish in wishes]
        active = [each for each in growing if each.wish.state.last_normed_H is not None]
        normed_KH = _stack([each.wish.state.last_normed_H for each in active])
        feedback_KH = _stack([each.wish.state.last_feedback_H for each in active])
        while active:
            parent_rows = self._add_level(active, normed_KH)
            active = [each for each in active if each.frontier is not None]
            if active:
                output = self._run_frontiers(active, feedback_KH[torch.tensor(parent_rows, device=self._device)])
                feedback_KH, normed_KH = output.feedback_BSH[0], output.normed_BSH[0]
        return [each.error or each.growth.tree() for each in growing]

    def rehearse(self, rows: int) -> None:
        """Run a level of `rows` nodes and score their children, for measuring; overwrites the first slots."""
        hidden_size = self._draft.config.hidden_size
        output = self._draft(
            torch.zeros(1, rows, dtype=torch.int64, device=self._device),
            torch.zeros(1, rows, hidden_size, dtype=self._draft.dtype, device=self._device),
            torch.arange(rows, device=self._device)[None],
            self.cache.attend([SequenceRows(range(rows), range(rows), causal_mask(rows))]),
        )
        self._draft.logits(output.normed_BSH[0]).float().log_softmax(dim=-1).topk(1, dim=-1).values.tolist()

    def _add_level(self, active: Sequence[_Growing], normed_KH: Tensor) -> list[int]:
        """Give every frontier node its best children; returns the row of each new frontier node's parent."""
        log_probs_KV = self._draft.logits(normed_KH).float().log_softmax(dim=-1)
        most = max(each.wish.shape.top_k for each in active)
        best_KC, draft_ids_KC = log_probs_KV.topk(min(most, log_probs_KV.shape[-1]), dim=-1)
        log_probs: list[list[float]] = best_KC.tolist()
        token_ids: list[list[int]] = self._draft.target_ids_V[draft_ids_KC].tolist()
        parent_rows: list[int] = []
        first = 0
        for each in active:
            end = first + each.frontier_size
            each.add_level(log_probs[first:end], token_ids[first:end])
            if each.frontier is not None:
                parent_rows += [first + row for row in each.frontier.parent_rows]
            first = end
        return parent_rows

    def _run_frontiers(self, active: Sequence[_Growing], feedback_KH: Tensor) -> DraftOutput:
        rows: list[SequenceRows] = []
        token_ids: list[int] = []
        positions: list[int] = []
        for each in active:
            assert each.frontier is not None
            state, size = each.wish.state, each.frontier_size
            end = state.length + each.visible_KR.shape[1]
            rows.append(SequenceRows(state.table.slots(0, end), state.table.slots(end - size, end), each.visible_KR))
            token_ids += each.frontier.token_ids
            positions += [state.length + each.frontier.level - 1] * size
        output: DraftOutput = self._draft(
            torch.tensor([token_ids], device=self._device),
            feedback_KH[None],
            torch.tensor([positions], device=self._device),
            self.cache.attend(rows),
        )
        return output


class _Growing:
    """One tree in the making, with what its frontier sees of the levels before."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.growth = TreeGrowth(wish.shape, wish.root_id, wish.chain)
        self.frontier: Frontier | None = None
        self.visible_KR = torch.zeros(1, 0, dtype=torch.bool)
        self.error: NumericalError | None = None

    @property
    def frontier_size(self) -> int:
        return len(self.frontier.token_ids) if self.frontier else 1

    def add_level(self, log_probs_KC: Sequence[Sequence[float]], token_ids_KC: Sequence[Sequence[int]]) -> None:
        top_k = self.wish.shape.top_k
        if not all(math.isfinite(row[0]) for row in log_probs_KC):  # a log-softmax is NaN everywhere or nowhere
            self.frontier = None
            self.error = NumericalError(
                "the draft produced NaN or infinite logits; check it with `eagle3 draft doctor`"
            )
            return
        self.frontier = self.growth.add_level(
            [row[:top_k] for row in log_probs_KC], [row[:top_k] for row in token_ids_KC]
        )
        if self.frontier is not None:
            parents = torch.tensor(self.frontier.parent_rows)
            own = torch.eye(len(parents), dtype=torch.bool)
            self.visible_KR = torch.cat([self.visible_KR[parents], own], dim=1)


def _stack(vectors: Sequence[Tensor | None]) -> Tensor:
    present = [vector for vector in vectors if vector is not None]
    return torch.stack(present) if present else torch.empty(0)

"""Training batches: rows of similar length side by side, padded on the right, targets mapped to draft ids.

B rows, S positions, F features, K top target probabilities kept. Position i of a batch is draft input i:
feature of token i, followed token i + 1 (see `ttt`). Knows no model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3.train.features import FeatureRow


@dataclass(frozen=True, slots=True)
class Batch:
    """One training batch; positions past a row's end have `answer_BS` False."""

    input_ids_BS: Tensor
    """Token ids, int64."""
    answer_BS: Tensor
    """Whether the assistant wrote the token, bool."""
    taps_BSF: Tensor
    """Target features, bfloat16."""
    top_draft_ids_BSK: Tensor
    """Draft ids of the target's top tokens after each position, int64; 0 where outside the draft vocabulary."""
    top_probs_BSK: Tensor
    """Their probabilities renormalised over the draft vocabulary, float32; 0 outside it."""
    argmax_in_vocabulary_BS: Tensor
    """Whether the target's own choice after the position can be proposed by the draft, bool."""


def batches(
    rows: Sequence[FeatureRow],
    inverse_V: Tensor,
    *,
    positions_per_batch: int,
    max_length: int,
    rng: random.Random | None,
) -> Iterator[Batch]:
    """One epoch; `rng` shuffles rows within and between batches, None keeps length order (evaluation)."""
    lengths = [min(len(row.input_ids_S), max_length) for row in rows]
    noise = [rng.random() * 16 if rng else 0.0 for _ in rows]  # mixes neighbours of nearly equal length
    order = sorted(range(len(rows)), key=lambda index: lengths[index] + noise[index])
    groups: list[list[int]] = []
    current: list[int] = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if current and longest * (len(current) + 1) > positions_per_batch:
            groups.append(current)
            current, longest = [], lengths[index]
        current.append(index)
    if current:
        groups.append(current)
    if rng:
        rng.shuffle(groups)
    for group in groups:
        yield collate([rows[index] for index in group], inverse_V, max_length)


def collate(rows: Sequence[FeatureRow], inverse_V: Tensor, max_length: int) -> Batch:
    """Pad rows into one batch and restrict the target's probabilities to the draft vocabulary."""
    longest = min(max(len(row.input_ids_S) for row in rows), max_length)

    def padded(tensors: list[Tensor]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence([tensor[:longest] for tensor in tensors], batch_first=True)

    draft_ids = inverse_V[padded([row.top_ids_SK for row in rows]).long()]
    inside = draft_ids >= 0
    probs = padded([row.top_probs_SK for row in rows]).float() * inside
    return Batch(
        input_ids_BS=padded([row.input_ids_S for row in rows]).long(),
        answer_BS=padded([row.answer_mask_S for row in rows]).bool(),
        taps_BSF=padded([row.taps_SF for row in rows]),
        top_draft_ids_BSK=draft_ids.clamp_min(0),
        top_probs_BSK=probs / probs.sum(dim=-1, keepdim=True).clamp_min(1e-6),
        argmax_in_vocabulary_BS=inside[..., 0],
    )

"""Training-time test: the draft is trained on its own fed-back hidden states (EAGLE-3 paper, section 3.2).

Row t of step s reads token t + 1 + s at position t + s and learns the target's distribution after that token.
Its hidden state is the fused target feature of token t at step 0 and its own output of the step before later
on. It attends to the real keys of rows up to t (step 0) and to the keys of its own chain (steps 1 to s).
Knows no optimiser. B rows of text, S positions, M positions under the loss mask, V draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from eagle3.models.draft import Draft
from eagle3.train.batches import Batch


@dataclass(frozen=True, slots=True)
class StepResult:
    """Outcome of one training-time-test step."""

    loss: Tensor
    """Mean soft cross-entropy over the masked positions, scalar float32."""
    correct_BS: Tensor
    """Whether the draft's first choice is the target's first choice, bool; False outside the mask.

    Columns begin at the first row that any step predicts an answer token from."""
    mask_BS: Tensor
    """Positions whose predicted token belongs to an answer, bool; the same columns."""


class ChainAttention:
    """An `Attend` over the real keys of step 0 and the diagonal keys of the steps since.

    Steps after the first may leave out the rows before `first_row`, whose outputs nothing needs.
    """

    def __init__(self, first_row: int) -> None:
        self._first_row = first_row
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def __call__(self, layer: int, query_BHSD: Tensor, key_BGSD: Tensor, value_BGSD: Tensor) -> Tensor:
        """Attention output [B, H, S, D] of one step; keeps the step's keys for the steps after it."""
        del layer  # a draft has one
        share = query_BHSD.shape[1] // key_BGSD.shape[1]
        self._keys.append(key_BGSD.repeat_interleave(share, dim=1))
        self._values.append(value_BGSD.repeat_interleave(share, dim=1))
        if len(self._keys) == 1:
            return F.scaled_dot_product_attention(query_BHSD, self._keys[0], self._values[0], is_causal=True)
        query = query_BHSD * query_BHSD.shape[-1] ** -0.5
        real_keys = self._keys[0].shape[2]
        future = torch.ones(query.shape[2], real_keys, dtype=torch.bool, device=query.device).triu(1 + self._first_row)
        real = (query @ self._keys[0].transpose(-1, -2)).masked_fill(future, float("-inf"))
        chain = torch.stack([(query * keys).sum(dim=-1) for keys in self._keys[1:]], dim=-1)
        weights = torch.cat([real, chain], dim=-1).softmax(dim=-1, dtype=torch.float32).to(query.dtype)
        out = weights[..., :real_keys] @ self._values[0]
        for index, values in enumerate(self._values[1:]):
            out = out + weights[..., real_keys + index, None] * values
        return out


def training_time_test(draft: Draft, batch: Batch, num_steps: int) -> list[StepResult]:
    """Unroll `num_steps` draft steps over a batch; rows too short for a step are masked out of it."""
    hidden = draft.fuse(batch.taps_BSF)
    rows = batch.input_ids_BS.shape[1]
    # Row t predicts token t + 2 at step 0: rows before the first answer in the batch are only keys.
    first_row = max(0, _first_true_column(batch.answer_BS) - 2)
    attention = ChainAttention(first_row)
    positions = torch.arange(rows, device=hidden.device).expand(len(hidden), -1)
    results: list[StepResult] = []
    for step in range(num_steps):
        begin = first_row if step else 0
        token_ids = _shifted(batch.input_ids_BS, 1 + step)[:, begin:]
        output = draft(token_ids, hidden, positions[:, begin:] + step, attention)
        hidden = output.feedback_BSH[:, first_row - begin :]
        normed = output.normed_BSH[:, first_row - begin :]
        answers = _shifted(batch.answer_BS, 2 + step)[:, first_row:]
        learnable = answers & _shifted(batch.argmax_in_vocabulary_BS, 1 + step)[:, first_row:]
        top_ids = _shifted(batch.top_draft_ids_BSK, 1 + step)[:, first_row:][learnable]
        top_probs = _shifted(batch.top_probs_BSK, 1 + step)[:, first_row:][learnable]
        log_probs_MV = draft.logits(normed[learnable]).log_softmax(dim=-1, dtype=torch.float32)
        losses_M = -(log_probs_MV.gather(1, top_ids) * top_probs).sum(dim=-1)
        correct = torch.zeros_like(answers)
        correct[learnable] = log_probs_MV.detach().argmax(dim=-1) == top_ids[:, 0]
        results.append(StepResult(loss=losses_M.sum() / max(len(losses_M), 1), correct_BS=correct, mask_BS=answers))
    return results


def weighted_loss(results: list[StepResult], decay: float) -> Tensor:
    """Sum of the step losses weighted by decay^step (0.8 in the reference code)."""
    weights = [decay**step for step in range(len(results))]
    return torch.stack([weight * result.loss for weight, result in zip(weights, results, strict=True)]).sum()


def accepted_lengths(results: list[StepResult]) -> tuple[int, list[int]]:
    """Chains started under the mask, and how many of them are right up to and including each step.

    On text that the target wrote greedily this is what a chain of that length would have accepted, so
    tau = 1 + sum(accepted) / started.
    """
    started = int(results[0].mask_BS.sum())
    running = results[0].mask_BS
    accepted: list[int] = []
    for result in results:
        running = running & result.correct_BS
        accepted.append(int(running.sum()))
    return started, accepted


def _first_true_column(mask_BS: Tensor) -> int:
    columns = mask_BS.any(dim=0).nonzero()
    return int(columns[0]) if len(columns) else 0


def _shifted(values: Tensor, steps: int) -> Tensor:
    """Move the position axis (dimension 1) left; what comes in from the right is zero or False."""
    shape = list(values.shape)
    shape[1] = min(steps, values.shape[1])
    return torch.cat([values[:, steps:], values.new_zeros(shape)], dim=1)

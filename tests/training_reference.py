"""The recipe of EAGLE-3 training written out a second time, one query after the other, to test the fast one against.

Shares no code with `eagle3.train` or `eagle3.models`: raw tensors under the names of `Draft.state_dict()`, its own
norm, rotation and attention. Slow on purpose. H hidden width, V draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Guess:
    """One draft output that has something to learn from."""

    step: int
    """Training-time-test step, from 0."""
    row: int
    """Sequence of the batch."""
    start: int
    """Position t where the chain started."""
    log_probs_V: Tensor
    """Over the draft vocabulary."""
    loss: Tensor | None
    """Soft cross-entropy; None where the target's own choice is outside the draft vocabulary."""


class ReferenceDraft:
    """A draft as a dictionary of tensors; `config` is a `DraftConfig`, `embedding_VH` the target's."""

    def __init__(self, tensors: dict[str, Tensor], config: Any, embedding_VH: Tensor) -> None:
        self.tensors = tensors
        self.config = config
        self.embedding_VH = embedding_VH

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Root-mean-square norm with the weight of that name."""
        scale = (x.square().mean(dim=-1, keepdim=True) + self.config.rms_eps).rsqrt()
        return x * scale * self.tensors[name]

    def fuse(self, feature_F: Tensor) -> Tensor:
        """Target feature to hidden state."""
        if self.config.norm_before_fc:
            feature_F = self.norm(feature_F, "input_norm.weight")
        if self.config.fc_norm:
            parts = feature_F.split(self.config.target_hidden_size)
            feature_F = torch.cat([self.norm(part, f"fc_norm.{index}.weight") for index, part in enumerate(parts)])
        return self.tensors["fc.weight"] @ feature_F

    def inputs(self, token_id: int, hidden_H: Tensor) -> tuple[Tensor, Tensor]:
        """What the attention reads (2H), and the residual (H)."""
        normed = self.norm(hidden_H, "midlayer.hidden_norm.weight")
        embedded = self.norm(self.embedding_VH[token_id], "midlayer.input_layernorm.weight")
        return torch.cat([embedded, normed]), normed if self.config.norm_before_residual else hidden_H

    def heads(self, both: Tensor, kind: str, position: int | None) -> Tensor:
        """Heads [heads, D] of one projection, rotated where a position is given."""
        x = (self.tensors[f"midlayer.self_attn.{kind}_proj.weight"] @ both).view(-1, self.config.head_dim)
        if position is None:
            return x
        half = self.config.head_dim // 2
        angles = position * self.config.rope.theta ** (-torch.arange(half) * 2 / self.config.head_dim)
        cos, sin = angles.cos(), angles.sin()
        first, second = x[:, :half], x[:, half:]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def key_value(self, token_id: int, hidden_H: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Key and value of one draft input."""
        both, _ = self.inputs(token_id, hidden_H)
        return self.heads(both, "k", position), self.heads(both, "v", None)

    def run(
        self, token_id: int, hidden_H: Tensor, position: int, seen: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """One draft input that sees the keys and values in `seen` (its own among them): feedback and log-probs."""
        both, residual = self.inputs(token_id, hidden_H)
        query = self.heads(both, "q", position)
        share = self.config.num_heads // self.config.num_kv_heads
        attended = []
        for head in range(self.config.num_heads):
            keys = torch.stack([key[head // share] for key, _ in seen])
            values = torch.stack([value[head // share] for _, value in seen])
            weights = (keys @ query[head] / self.config.head_dim**0.5).softmax(dim=0)
            attended.append(weights @ values)
        x = residual + self.tensors["midlayer.self_attn.o_proj.weight"] @ torch.cat(attended)
        y = self.norm(x, "midlayer.post_attention_layernorm.weight")
        gate = self.tensors["midlayer.mlp.gate_proj.weight"] @ y
        up = self.tensors["midlayer.mlp.up_proj.weight"] @ y
        hidden = x + self.tensors["midlayer.mlp.down_proj.weight"] @ (gate * gate.sigmoid() * up)
        normed = self.norm(hidden, "norm.weight")
        log_probs_V = (self.tensors["lm_head.weight"] @ normed).log_softmax(dim=0)
        return normed if self.config.feedback_normed else hidden, log_probs_V

    def guesses(self, batch: Any, num_steps: int, first_start: int = 0) -> list[Guess]:
        """Every chain of every row that starts at `first_start` or later, and predicts an answer token."""
        made: list[Guess] = []
        for row, token_ids in enumerate(batch.input_ids_BS.tolist()):
            length = len(token_ids)
            fused = [self.fuse(feature_F.float()) for feature_F in batch.taps_BSF[row]]
            # Input i pairs the feature of token i with token i + 1, at position i.
            real = [self.key_value(token_ids[i + 1], fused[i], i) for i in range(length - 1)]
            for start in range(first_start, length - 1):
                seen = real[: start + 1]
                hidden = fused[start]
                for step in range(num_steps):
                    reads, predicts = start + 1 + step, start + 2 + step
                    if predicts >= length:
                        break
                    if step:
                        seen = [*seen, self.key_value(token_ids[reads], hidden, start + step)]
                    hidden, log_probs_V = self.run(token_ids[reads], hidden, start + step, seen)
                    if not batch.answer_BS[row, predicts]:
                        continue
                    loss = None
                    if batch.argmax_in_vocabulary_BS[row, reads]:
                        ids, probs = batch.top_draft_ids_BSK[row, reads], batch.top_probs_BSK[row, reads]
                        loss = -(probs * log_probs_V[ids]).sum()
                    made.append(Guess(step, row, start, log_probs_V, loss))
        return made


def step_losses(guesses: list[Guess], num_steps: int) -> list[Tensor]:
    """Mean loss of each step, 0 where a step has nothing to learn."""
    per_step = [[g.loss for g in guesses if g.step == step and g.loss is not None] for step in range(num_steps)]
    return [torch.stack(losses).mean() if losses else torch.zeros(()) for losses in per_step]

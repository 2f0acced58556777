"""A packed draft on the row kernels: the same interface as `Draft` for passes over a paged cache.

Knows no trees. B is 1, T rows, H draft width, F features of the target, V draft vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eagle3.cache.paged_cache import RaggedAttend
from eagle3.models.draft import Draft, DraftOutput
from eagle3.models.layers import RMSNorm
from eagle3.models.rope import rotary_angles
from eagle3.models.row_layers import RowAttention, RowLinear, RowMLP, RowNorm, Workspace, add, half_angles


class RowDraft:
    """Runs a draft whose layers `row_layers.can_run`."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.config = draft.config
        self.device = draft.norm.weight.device
        self.dtype = torch.float32
        self.target_ids_V = draft.target_ids_V
        layer = draft.midlayer
        work = Workspace()
        self._fc = RowLinear(draft.fc, work)
        self._input_norm = None if draft.input_norm is None else RowNorm(draft.input_norm)
        self._fc_norms = [RowNorm(norm) for norm in draft.fc_norm or () if isinstance(norm, RMSNorm)]
        self._embedding_norm = RowNorm(layer.input_layernorm)
        self._hidden_norm = RowNorm(layer.hidden_norm)
        self._attention = RowAttention(layer.self_attn, work)
        self._mlp_norm = RowNorm(layer.post_attention_layernorm)
        self._mlp = RowMLP(layer.mlp, work)
        self._norm = RowNorm(draft.norm)
        self._head = RowLinear(draft.lm_head, work)

    def fuse(self, taps_1TF: Tensor) -> Tensor:
        """Target features [1, T, F] to the draft's hidden states [1, T, H]."""
        x = taps_1TF[0].float().contiguous()
        if self._input_norm is not None:
            x = _normed(self._input_norm, x)
        if self._fc_norms:
            parts = x.split(self.config.target_hidden_size, dim=-1)
            x = torch.cat([_normed(norm, part) for norm, part in zip(self._fc_norms, parts, strict=True)], dim=-1)
        return self._fc.finished(x)[None]

    def __call__(
        self, token_ids_1T: Tensor, hidden_1TH: Tensor, positions_1T: Tensor, attend: RaggedAttend
    ) -> DraftOutput:
        """Run T draft inputs: target token ids with fused features, or with fed-back hidden states."""
        embedded = self._draft.embedding(token_ids_1T)[0].float()
        hidden = hidden_1TH[0]
        cos, sin = half_angles(rotary_angles(self._draft.inv_freq, positions_1T))
        normed = _normed(self._hidden_norm, hidden)
        x = (normed if self._draft.midlayer.norm_before_residual else hidden).clone()
        both = torch.cat([_normed(self._embedding_norm, embedded), normed], dim=-1)
        add(x.numpy(), self._attention(both.numpy(), both, cos, sin, attend, 0))
        normed = _normed(self._mlp_norm, x)
        add(x.numpy(), self._mlp(normed.numpy(), normed))
        last = _normed(self._norm, x)[None]
        return DraftOutput(feedback_BSH=last if self.config.feedback_normed else x[None], normed_BSH=last)

    def logits(self, normed_TH: Tensor) -> Tensor:
        """Draft logits [T, V], float32, over draft ids."""
        return self._head.finished(normed_TH.contiguous())


def _normed(norm: RowNorm, x_TK: Tensor) -> Tensor:
    x_TK = x_TK.contiguous()
    out = torch.empty_like(x_TK)
    norm.into(x_TK.numpy(), out.numpy())
    return out

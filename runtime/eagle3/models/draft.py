"""The EAGLE-3 draft: multi-layer feature fusion, one decoder layer, a head over a reduced vocabulary.

Knows no trees, caches or files. Draft input i pairs the target's feature of token i with token i + 1, at
position i (EAGLE-3 reference code; eagle3 `docs/glossary.md`). B sequences, S positions, H draft width,
F = T * target width, V draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eagle3.models.draft_config import DraftConfig
from eagle3.models.layers import Attend, RMSNorm, SelfAttention, SwiGLU
from eagle3.models.rope import inverse_frequencies, rotary_angles


@dataclass(frozen=True, slots=True)
class DraftOutput:
    """What one forward pass of the draft gives, [B, S, H] each."""

    feedback_BSH: Tensor
    """Hidden state that the next draft step takes in place of a target feature."""
    normed_BSH: Tensor
    """Input of the head; `Draft.logits` turns any of it into logits."""


class DraftLayer(nn.Module):
    """Decoder layer whose attention reads the token embedding and the feature side by side (width 2H)."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_eps
        self.norm_before_residual = config.norm_before_residual
        self.input_layernorm = RMSNorm(hidden, eps)
        self.hidden_norm = RMSNorm(hidden, eps)
        self.self_attn = SelfAttention(
            input_width=2 * hidden,
            output_width=hidden,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            qkv_bias=config.qkv_bias,
        )
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = SwiGLU(hidden, config.intermediate_size)

    def forward(
        self, embedded_BSH: Tensor, hidden_BSH: Tensor, cos_B1SD: Tensor, sin_B1SD: Tensor, attend: Attend
    ) -> Tensor:
        normed = self.hidden_norm(hidden_BSH)
        residual = normed if self.norm_before_residual else hidden_BSH
        both = torch.cat([self.input_layernorm(embedded_BSH), normed], dim=-1)
        x = residual + self.self_attn(both, cos_B1SD, sin_B1SD, attend, 0)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Draft(nn.Module):
    """EAGLE-3 head; without an embedding of its own it must be given the target's by `share_embedding`."""

    inv_freq: Tensor
    target_ids_V: Tensor
    """Target token id of each draft id, int64."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        features = config.num_taps * config.target_hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size) if config.own_embedding else None
        self.input_norm = RMSNorm(features, config.rms_eps) if config.norm_before_fc else None
        self.fc_norm = (
            nn.ModuleList(RMSNorm(config.target_hidden_size, config.rms_eps) for _ in range(config.num_taps))
            if config.fc_norm
            else None
        )
        self.fc = nn.Linear(features, config.hidden_size, bias=False)
        self.midlayer = DraftLayer(config)
        self.norm = RMSNorm(config.hidden_size, config.rms_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.register_buffer("inv_freq", inverse_frequencies(config.rope, config.head_dim), persistent=False)
        self.register_buffer("target_ids_V", torch.arange(config.draft_vocab_size), persistent=False)
        self._shared_embedding: list[nn.Embedding] = []  # in a list, so that it is not a parameter of the draft

    def share_embedding(self, embedding: nn.Embedding) -> None:
        """Read token embeddings from the target; the width must be the draft's H."""
        assert embedding.embedding_dim == self.config.hidden_size, "a draft of another width brings its own embedding"
        self._shared_embedding = [embedding]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.norm.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of hidden states, keys and values."""
        return self.norm.weight.dtype

    @property
    def embedding(self) -> nn.Embedding:
        """The embedding that the draft reads: its own, else the target's."""
        if self.embed_tokens is not None:
            return self.embed_tokens
        assert self._shared_embedding, "call share_embedding(target.embed_tokens) first"
        return self._shared_embedding[0]

    def fuse(self, taps_BSF: Tensor) -> Tensor:
        """Target features [B, S, F] to the draft's hidden states [B, S, H]."""
        x = taps_BSF.to(self.norm.weight.dtype)
        if self.input_norm is not None:
            x = self.input_norm(x)
        if self.fc_norm is not None:
            parts = x.split(self.config.target_hidden_size, dim=-1)
            x = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], dim=-1)
        out: Tensor = self.fc(x)
        return out

    def forward(self, token_ids_BS: Tensor, hidden_BSH: Tensor, positions_BS: Tensor, attend: Attend) -> DraftOutput:
        """Run S draft inputs: target token ids with fused features, or with fed-back hidden states."""
        embedded = self.embedding(token_ids_BS).to(hidden_BSH.dtype)
        cos, sin = rotary_angles(self.inv_freq, positions_BS)
        hidden = self.midlayer(embedded, hidden_BSH, cos, sin, attend)
        normed = self.norm(hidden)
        return DraftOutput(feedback_BSH=normed if self.config.feedback_normed else hidden, normed_BSH=normed)

    def logits(self, normed: Tensor) -> Tensor:
        """Draft logits [.., V] over draft ids; `target_ids_V` maps the last axis to target ids."""
        out: Tensor = self.lm_head(normed)
        return out

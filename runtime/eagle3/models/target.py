"""A Llama-family decoder with tap layers, on plain torch.

Knows no files, caches or tokenizers. Invariant: the taps come back as many as asked for, in the order
asked for; tap k is the residual stream at the input of layer k, and k == num_layers is the output of the
last layer before the final norm. B sequences, S positions, H hidden width, V vocabulary, T taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eagle3.errors import ConfigError
from eagle3.models.architecture import Architecture
from eagle3.models.layers import Attend, DecoderLayer, RMSNorm, SelfAttention, SwiGLU
from eagle3.models.rope import inverse_frequencies, rotary_angles


@dataclass(frozen=True, slots=True)
class TargetOutput:
    """What one forward pass of the target gives."""

    hidden_BSH: Tensor
    """Normed final hidden states; `Target.logits` turns any of them into logits."""
    taps_BSF: Tensor
    """Tap states side by side, F = T * H, in the order of `Target.tap_inputs`."""


class Target(nn.Module):
    """Decoder stack; `forward` runs S new positions of B sequences through a caller's attention."""

    inv_freq: Tensor

    def __init__(self, arch: Architecture, tap_inputs: Sequence[int] = ()) -> None:
        super().__init__()
        self.arch = arch
        self.tap_inputs: tuple[int, ...] = ()
        self.embed_tokens = nn.Embedding(arch.vocab_size, arch.hidden_size)
        self.layers = nn.ModuleList(_layer(arch) for _ in range(arch.num_layers))
        self.norm = RMSNorm(arch.hidden_size, arch.rms_eps)
        self.lm_head = nn.Linear(arch.hidden_size, arch.vocab_size, bias=False)
        if arch.tied_embeddings:
            self.lm_head.weight = self.embed_tokens.weight
        self.register_buffer("inv_freq", inverse_frequencies(arch.rope, arch.head_dim), persistent=False)
        self.head_dtype = torch.float32
        self.set_taps(tap_inputs)

    def set_taps(self, tap_inputs: Sequence[int]) -> None:
        """Choose the tap layers by layer input, 0 to num_layers; raises ConfigError for any other."""
        for tap in tap_inputs:
            if not 0 <= tap <= self.arch.num_layers:
                raise ConfigError(
                    f"tap layer {tap} does not exist in a target of {self.arch.num_layers} layers; "
                    f"allowed: inputs 0 to {self.arch.num_layers} ({self.arch.num_layers} is the last output)"
                )
        self.tap_inputs = tuple(tap_inputs)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.norm.weight.device

    @property
    def last_layer(self) -> DecoderLayer:
        """The layer before the final norm."""
        layer = self.layers[-1]
        assert isinstance(layer, DecoderLayer)
        return layer

    def forward(self, token_ids_BS: Tensor, positions_BS: Tensor, attend: Attend) -> TargetOutput:
        """Run S tokens at the given positions (int64, same device as the weights)."""
        x = self.embed_tokens(token_ids_BS)
        cos, sin = rotary_angles(self.inv_freq, positions_BS)
        wanted = set(self.tap_inputs)
        states: dict[int, Tensor] = {}
        for index, layer in enumerate(self.layers):
            if index in wanted:
                states[index] = x
            x = layer(x, cos, sin, attend, index)
        states[self.arch.num_layers] = x
        taps = [states[tap] for tap in self.tap_inputs]
        taps_BSF = torch.cat(taps, dim=-1) if taps else x[..., :0]
        return TargetOutput(hidden_BSH=self.norm(x), taps_BSF=taps_BSF)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [.., V] of normed hidden states [.., H]."""
        out: Tensor = self.lm_head(hidden.to(self.head_dtype))
        return out


def _layer(arch: Architecture) -> DecoderLayer:
    attention = SelfAttention(
        input_width=arch.hidden_size,
        output_width=arch.hidden_size,
        num_heads=arch.num_heads,
        num_kv_heads=arch.num_kv_heads,
        head_dim=arch.head_dim,
        qkv_bias=arch.qkv_bias,
        output_bias=arch.output_bias,
        qk_norm_eps=arch.rms_eps if arch.qk_norm else None,
    )
    mlp = SwiGLU(arch.hidden_size, arch.intermediate_size, bias=arch.mlp_bias)
    return DecoderLayer(attention, mlp, arch.hidden_size, arch.rms_eps)

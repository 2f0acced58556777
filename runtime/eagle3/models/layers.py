"""The layers that target and draft share: RMSNorm, SwiGLU and one self-attention over any cache.

Knows no cache: `Attend` is what a caller passes in to store keys and values and to attend over them.
B sequences, S positions, H hidden width, D head width.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from eagle3.models.rope import rotate


class Attend(Protocol):
    """Stores the new keys and values of a layer and returns the attention output for the new queries."""

    def __call__(self, layer: int, query_BHSD: Tensor, key_BGSD: Tensor, value_BGSD: Tensor) -> Tensor:
        """Return [B, H, S, D]; G is the number of key/value heads and divides H."""
        ...


class RMSNorm(nn.Module):
    """Root-mean-square norm; torch accumulates it in float32 and returns the input's dtype."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        # Under autocast x is bfloat16 and the weight float32: the fused kernel wants one dtype.
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class SwiGLU(nn.Module):
    """Gated MLP: down(silu(gate(x)) * up(x)); width [.., H] in and out."""

    def __init__(self, hidden: int, intermediate: int, bias: bool = False) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=bias)
        self.up_proj = nn.Linear(hidden, intermediate, bias=bias)
        self.down_proj = nn.Linear(intermediate, hidden, bias=bias)
        self.gate_up_proj: nn.Module | None = None

    def merge_projections(self) -> None:
        """Make one layer of gate and up, for inference: one product instead of two."""
        if self.gate_up_proj is None:
            self.gate_up_proj = _side_by_side(self.gate_proj, self.up_proj)
            del self.gate_proj, self.up_proj

    def forward(self, x: Tensor) -> Tensor:
        if self.gate_up_proj is not None:
            gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        else:
            gate, up = self.gate_proj(x), self.up_proj(x)
        out: Tensor = self.down_proj(F.silu(gate) * up)
        return out


class SelfAttention(nn.Module):
    """Grouped-query attention with rotary positions; input [B, S, input_width], output [B, S, output_width]."""

    def __init__(
        self,
        *,
        input_width: int,
        output_width: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        qkv_bias: bool = False,
        output_bias: bool = False,
        qk_norm_eps: float | None = None,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.q_proj = nn.Linear(input_width, num_heads * head_dim, bias=qkv_bias)
        self.k_proj = nn.Linear(input_width, num_kv_heads * head_dim, bias=qkv_bias)
        self.v_proj = nn.Linear(input_width, num_kv_heads * head_dim, bias=qkv_bias)
        self.o_proj = nn.Linear(num_heads * head_dim, output_width, bias=output_bias)
        self.qkv_proj: nn.Module | None = None
        self.q_norm = None if qk_norm_eps is None else RMSNorm(head_dim, qk_norm_eps)
        self.k_norm = None if qk_norm_eps is None else RMSNorm(head_dim, qk_norm_eps)

    def merge_projections(self) -> None:
        """Make one layer of queries, keys and values, for inference: one product instead of three."""
        if self.qkv_proj is None:
            self.qkv_proj = _side_by_side(self.q_proj, self.k_proj, self.v_proj)
            del self.q_proj, self.k_proj, self.v_proj

    def project(self, x_BSI: Tensor, cos_B1SD: Tensor, sin_B1SD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [B, H, S, D], rotated keys and values [B, G, S, D]."""
        batch, steps, _ = x_BSI.shape
        if self.qkv_proj is not None:
            merged = self.qkv_proj(x_BSI).view(batch, steps, -1, self.head_dim)
            query, key, value = merged.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=2)
        else:
            query = self.q_proj(x_BSI).view(batch, steps, self.num_heads, self.head_dim)
            key = self.k_proj(x_BSI).view(batch, steps, self.num_kv_heads, self.head_dim)
            value = self.v_proj(x_BSI).view(batch, steps, self.num_kv_heads, self.head_dim)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        query = rotate(query.transpose(1, 2), cos_B1SD, sin_B1SD)
        key = rotate(key.transpose(1, 2), cos_B1SD, sin_B1SD)
        return query, key, value.transpose(1, 2)

    def forward(self, x_BSI: Tensor, cos_B1SD: Tensor, sin_B1SD: Tensor, attend: Attend, layer: int) -> Tensor:
        query, key, value = self.project(x_BSI, cos_B1SD, sin_B1SD)
        attended = attend(layer, query, key, value)
        merged = attended.transpose(1, 2).reshape(*x_BSI.shape[:2], self.num_heads * self.head_dim)
        out: Tensor = self.o_proj(merged)
        return out


class DecoderLayer(nn.Module):
    """Pre-norm decoder layer of the Llama family; [B, S, H] in and out."""

    def __init__(self, attention: SelfAttention, mlp: SwiGLU, hidden: int, eps: float) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(hidden, eps)
        self.self_attn = attention
        self.post_attention_layernorm = RMSNorm(hidden, eps)
        self.mlp = mlp

    def forward(self, x_BSH: Tensor, cos_B1SD: Tensor, sin_B1SD: Tensor, attend: Attend, layer: int) -> Tensor:
        x_BSH = x_BSH + self.self_attn(self.input_layernorm(x_BSH), cos_B1SD, sin_B1SD, attend, layer)
        x_BSH = x_BSH + self.mlp(self.post_attention_layernorm(x_BSH))
        return x_BSH


def _side_by_side(*layers: nn.Linear) -> nn.Linear:
    """One layer whose output is the layers' outputs side by side."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    merged = nn.Linear(weight.shape[1], weight.shape[0], bias=layers[0].bias is not None, device="meta")
    merged.weight = nn.Parameter(weight, requires_grad=False)
    if layers[0].bias is not None:
        merged.bias = nn.Parameter(torch.cat([layer.bias.detach() for layer in layers]), requires_grad=False)
    return merged

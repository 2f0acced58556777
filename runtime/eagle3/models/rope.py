"""Rotary position embeddings in the Hugging Face layout (halves, not interleaved pairs).

Knows no maximum position: angles are computed for the positions asked for, so a config's
`max_position_embeddings` never limits a draft. S positions, D head width.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eagle3.models.architecture import Rope


def inverse_frequencies(rope: Rope, head_dim: int) -> Tensor:
    """Inverse frequencies [head_dim / 2], float32, with the scaling of `rope` applied."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    inv_freq = 1.0 / (rope.theta**exponents)
    if rope.llama3 is not None:
        scaling = rope.llama3
        wavelength = 2 * math.pi / inv_freq
        smooth = (scaling.original_context / wavelength - scaling.low_freq_factor) / (
            scaling.high_freq_factor - scaling.low_freq_factor
        )
        smooth = smooth.clamp(0.0, 1.0)
        inv_freq = (1 - smooth) * inv_freq / scaling.factor + smooth * inv_freq
    if rope.frequency_divisors is not None:
        inv_freq = inv_freq / torch.tensor(rope.frequency_divisors)
    return inv_freq / rope.linear_factor


def rotary_angles(inv_freq: Tensor, positions_BS: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [B, 1, S, D], float32, broadcast over heads."""
    angles = positions_BS[:, None, :, None].to(torch.float32) * inv_freq
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x_BHSD: Tensor, cos_B1SD: Tensor, sin_B1SD: Tensor) -> Tensor:
    """Apply the rotation to queries or keys [B, heads, S, D], in their dtype."""
    first, second = x_BHSD.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x_BHSD * cos_B1SD.to(x_BHSD.dtype) + turned * sin_B1SD.to(x_BHSD.dtype)

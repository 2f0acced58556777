"""Attention over a whole sequence at once, without a cache: training, feature passes, parity tests.

B sequences, H query heads, G key/value heads, S positions, D head width. Queries see keys at their own
position and before.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def causal_attend(layer: int, query_BHSD: Tensor, key_BGSD: Tensor, value_BGSD: Tensor) -> Tensor:
    """Causal self-attention of a full sequence; [B, H, S, D]."""
    del layer  # keeps nothing between layers
    return F.scaled_dot_product_attention(query_BHSD, key_BGSD, value_BGSD, is_causal=True, enable_gqa=True)

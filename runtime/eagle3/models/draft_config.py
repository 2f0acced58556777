"""The shape and the flags of an EAGLE-3 draft, independent of the file format that spelled them.

Knows no files: `draft_formats` reads every upstream spelling into this and writes it back. Tap layers are
always inputs of layers here (convention A of the EAGLE code).
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle3.models.architecture import Rope


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftConfig:
    """One decoder layer over fused target features; sizes are counts."""

    hidden_size: int
    """Width H of the draft's residual stream."""
    intermediate_size: int
    """Width of the SwiGLU hidden layer."""
    num_heads: int
    """Query heads."""
    num_kv_heads: int
    """Key/value heads."""
    head_dim: int
    """Width of one head."""
    rms_eps: float
    """Epsilon of every RMSNorm."""
    rope: Rope
    """Rotary embedding; a draft has no maximum position."""
    vocab_size: int
    """Token ids of the target that the draft can read."""
    draft_vocab_size: int
    """Tokens that the draft can propose; equals `vocab_size` when there is no reduced vocabulary."""
    target_hidden_size: int
    """Width of one target feature."""
    num_taps: int = 3
    """Target features that are fused, T; the fusion reads T * target_hidden_size values."""
    tap_inputs: tuple[int, ...] | None = None
    """Tap layers as layer inputs, or None when the draft's files do not name them."""
    norm_before_residual: bool = False
    """The residual of the attention is the normed feature, not the feature itself (speculators)."""
    norm_before_fc: bool = False
    """One RMSNorm over all T features before the fusion (`input_norm`)."""
    fc_norm: bool = False
    """One RMSNorm for each of the T features before the fusion (EAGLE-3.1)."""
    feedback_normed: bool = False
    """The hidden state fed back to the next draft step is taken after the final norm (vLLM `norm_output`)."""
    own_embedding: bool = False
    """The draft brings an embedding of width H; otherwise it reads the target's."""
    qkv_bias: bool = False
    """Biases on the draft's query, key and value projections."""

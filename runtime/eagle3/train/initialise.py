"""Starts a draft from the target's own weights, which saves most of the training that small budgets cannot pay.

The draft layer takes the target's last layer (its queries, keys and values read the feature half of the
input; the embedding half starts at zero for queries and keys), the head takes the embedding or head rows of
the draft vocabulary, the fusion starts as a copy of the highest tap. Only for drafts of the target's width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eagle3.models.draft import Draft
from eagle3.models.draft_config import DraftConfig
from eagle3.models.target import Target

_NOISE_STD = 0.02


def draft_config_for(target: Target, draft_vocab_size: int) -> DraftConfig:
    """The draft of the reference recipe for this target: same widths and heads, default tap layers."""
    arch = target.arch
    return DraftConfig(
        hidden_size=arch.hidden_size,
        intermediate_size=arch.intermediate_size,
        num_heads=arch.num_heads,
        num_kv_heads=arch.num_kv_heads,
        head_dim=arch.head_dim,
        rms_eps=arch.rms_eps,
        rope=arch.rope,
        vocab_size=arch.vocab_size,
        draft_vocab_size=draft_vocab_size,
        target_hidden_size=arch.hidden_size,
        tap_inputs=arch.default_tap_inputs(),
    )


@torch.no_grad()
def initialise_from_target(draft: Draft, target: Target, generator: torch.Generator) -> None:
    """Fill every parameter of `draft` from `target`; `draft.target_ids_V` must be set."""
    width = draft.config.hidden_size
    assert width == target.arch.hidden_size, "only a draft of the target's width can take its weights"
    source = target.last_layer
    layer = draft.midlayer
    for name in ("q_proj", "k_proj", "v_proj"):
        weight: Tensor = getattr(layer.self_attn, name).weight
        weight.zero_()
        weight[:, width:] = getattr(source.self_attn, name).weight
    layer.self_attn.v_proj.weight[:, :width].normal_(0.0, _NOISE_STD, generator=generator)
    layer.self_attn.o_proj.weight.copy_(source.self_attn.o_proj.weight)
    layer.hidden_norm.weight.copy_(source.input_layernorm.weight)
    layer.post_attention_layernorm.weight.copy_(source.post_attention_layernorm.weight)
    for name in ("gate_proj", "up_proj", "down_proj"):
        getattr(layer.mlp, name).weight.copy_(getattr(source.mlp, name).weight)
    draft.norm.weight.copy_(target.norm.weight)
    draft.lm_head.weight.copy_(target.lm_head.weight[draft.target_ids_V])
    draft.fc.weight.zero_()
    draft.fc.weight[:, -width:] = torch.eye(width)

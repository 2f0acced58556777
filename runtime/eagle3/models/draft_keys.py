"""Upstream spellings of EAGLE-3 drafts: format names, config keys, allowed values. Upstream names stop here.

Knows no tensors and no files. Invariant: a config key is read, ignorable or fixed to one value; any other key
could change the forward pass and is refused by the reader.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

DraftFormat = Literal["original", "speculators", "nvidia"]
"""`original`: EAGLE repository and SpecForge; `speculators`: vLLM's; `nvidia`: Model Optimizer exports."""
TapConvention = Literal["input", "output"]
"""What a tap id counts: the input of a layer (EAGLE, vLLM) or the output of a layer (SGLang, NVIDIA)."""

DRAFT_FORMATS: tuple[DraftFormat, ...] = get_args(DraftFormat)
TAP_IDS_KEY = "eagle_aux_hidden_state_layer_ids"

DEFAULT_CONVENTION: dict[DraftFormat, TapConvention] = {
    "original": "input",
    "speculators": "input",
    "nvidia": "output",
}

EAGLE3_ARCHITECTURES = (
    "LlamaForCausalLMEagle3",
    "Eagle3LlamaForCausalLM",
    "LlamaForCausalLM",
    "Eagle3Speculator",
    "Eagle3DraftModel",
)
EAGLE1_ARCHITECTURES = ("EagleSpeculator", "EagleLlamaForCausalLM", "LlamaForCausalLMEagle", "EAGLEModel")

# Read into DraftConfig.
READ_KEYS = frozenset(
    {
        "architectures", "attention_bias", "draft_vocab_size", "eagle_config", "fc_norm", "head_dim", "hidden_size",
        "intermediate_size", "norm_before_fc", "norm_before_residual", "norm_output", "num_attention_heads",
        "num_aux_hidden_states", "num_key_value_heads", "partial_rotary_factor", "qkv_bias", "rms_norm_eps",
        "rope_parameters", "rope_scaling", "rope_theta", "target_hidden_size", "tie_word_embeddings", "vocab_size",
        TAP_IDS_KEY,
    }
)  # fmt: skip

# Checked against the one value that the draft implements; null counts as absent.
FIXED_VALUES: dict[str, Any] = {
    "hidden_act": "silu",
    "is_causal": True,
    "logit_scale": 1.0,
    "mlp_bias": False,
    "num_hidden_layers": 1,
    "position_embedding_type": "rope",
    "speculators_model_type": "eagle3",
    "use_sliding_window": False,
}
FIXED_EAGLE_CONFIG: dict[str, Any] = {
    "next_layer_regular": True,
    "parallel_draft_step": 1,
    "use_input_layernorm_in_first_layer": True,
    "use_last_layernorm": True,
    "use_mtp_layernorm": False,
}
READ_EAGLE_CONFIG = frozenset({TAP_IDS_KEY, "use_aux_hidden_state"})
# Without effect while parallel_draft_step is 1 and the head is in the file.
IGNORED_EAGLE_CONFIG = frozenset({"has_lm_head", "parallel_draft_heads_num_layers"})

# Top-level keys of the speculators format that do not change the forward pass.
SPECULATORS_ONLY = frozenset(
    {"auto_map", "embed_requires_grad", "enable_sp_ulysses", "speculators_config", "speculators_version"}
)
# Written by SpecForge alone: the sign of its hand.
SPECFORGE_KEYS = frozenset({"target_model_type"})
# Follow from the tensors, so they are not carried along.
DTYPE_KEYS = frozenset({"dtype", "torch_dtype"})
# Ordinary Hugging Face keys without influence on a draft's forward pass. `max_position_embeddings` is one:
# angles are computed for any position. `sliding_window` acts through `layer_types`, which is checked.
ORDINARY_KEYS = frozenset(
    {
        "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "add_cross_attention",
        "attention_dropout", "bos_token_id", "chunk_size_feed_forward", "eos_token_id", "id2label",
        "initializer_range", "is_decoder", "is_encoder_decoder", "label2id", "layer_types",
        "max_position_embeddings", "max_window_layers", "model_type", "name_or_path", "output_attentions",
        "output_hidden_states", "pad_token_id", "pretraining_tp", "problem_type", "return_dict", "sep_token_id",
        "sliding_window", "tokenizer_class", "torchscript", "transformers_version", "use_bfloat16", "use_cache",
    }
)  # fmt: skip
IGNORABLE_KEYS = ORDINARY_KEYS | SPECULATORS_ONLY | SPECFORGE_KEYS | DTYPE_KEYS

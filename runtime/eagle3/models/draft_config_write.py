"""Spells a `DraftConfig` as the config.json of each upstream format.

Knows no tensors. Invariant: `parse_draft_config` reads back an equal config, and no written key has two meanings:
`norm_output` is left out of the original layout unless it feeds the post-norm state back (SpecForge before #879
reads an absent key as "norm before the head" and false as "no norm"), and tap ids stand at the top level as inputs
of layers (vLLM) or inside `eagle_config` as outputs of layers (SGLang, TensorRT-LLM).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from eagle3.errors import ConfigError
from eagle3.models import draft_keys as keys
from eagle3.models.architecture import Rope
from eagle3.models.draft_config import DraftConfig

# For engines that size a table by it and crash beyond (vllm 48894); drafts themselves have no maximum.
_DEFAULT_MAX_POSITION = 32768


def spell_draft_config(
    config: DraftConfig,
    extra: Mapping[str, Any],
    draft_format: keys.DraftFormat,
    convention: keys.TapConvention,
    dtype: torch.dtype,
) -> dict[str, Any]:
    """The JSON object of config.json; `extra` are ignorable keys to carry, `dtype` that of the weights."""
    ordinary = {key: value for key, value in extra.items() if key in keys.ORDINARY_KEYS}
    layer: dict[str, Any] = {
        "max_position_embeddings": _DEFAULT_MAX_POSITION,
        "model_type": "llama",
        **ordinary,
        "attention_bias": config.qkv_bias,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "mlp_bias": False,
        "num_attention_heads": config.num_heads,
        "num_hidden_layers": 1,
        "num_key_value_heads": config.num_kv_heads,
        "rms_norm_eps": config.rms_eps,
        "tie_word_embeddings": False,
        "vocab_size": config.vocab_size,
        **rope_keys(config.rope),
    }
    flags = {
        "fc_norm": config.fc_norm,
        "norm_before_fc": config.norm_before_fc,
        "norm_before_residual": config.norm_before_residual,
        "norm_output": config.feedback_normed,
    }
    outer: dict[str, Any] = {
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": config.target_hidden_size,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
    if config.num_taps != 3:
        outer["num_aux_hidden_states"] = config.num_taps
    ids = _tap_ids(config.tap_inputs, convention)
    if draft_format == "speculators":
        ours = {key: value for key, value in extra.items() if key in keys.SPECULATORS_ONLY}
        return {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "speculators_config": _speculators_config(),
            **ours,
            **outer,
            **flags,
            keys.TAP_IDS_KEY: ids,
            "tie_word_embeddings": False,
            "transformer_layer_config": layer,
        }
    raised = {key: True for key, value in flags.items() if value}
    spelled = {"architectures": ["LlamaForCausalLMEagle3"], **layer, **outer, **raised}
    if draft_format == "nvidia":
        inner = {keys.TAP_IDS_KEY: ids or [], "use_aux_hidden_state": True, **keys.FIXED_EAGLE_CONFIG}
        return {**spelled, "eagle_config": inner}
    specforge = {key: value for key, value in extra.items() if key in keys.SPECFORGE_KEYS}
    if specforge and extra.get("norm_output"):
        specforge["norm_output"] = True
    return {**spelled, **specforge, **({} if ids is None else {keys.TAP_IDS_KEY: ids})}


def _tap_ids(tap_inputs: tuple[int, ...] | None, convention: keys.TapConvention) -> list[int] | None:
    if tap_inputs is None or convention == "input":
        return None if tap_inputs is None else list(tap_inputs)
    if min(tap_inputs) < 1:
        raise ConfigError(
            f"tap inputs {list(tap_inputs)} cannot be written as outputs of layers: 0 is the embedding; "
            "write the original or speculators format"
        )
    return [tap - 1 for tap in tap_inputs]


def rope_keys(rope: Rope) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling` of a config.json."""
    if rope.frequency_divisors is not None:
        raise ConfigError("rotary frequency divisors of a GGUF file have no spelling in config.json; use rope scaling")
    scaling: dict[str, Any] = {}
    if rope.llama3 is not None:
        scaling = {
            "rope_type": "llama3",
            "factor": rope.llama3.factor,
            "low_freq_factor": rope.llama3.low_freq_factor,
            "high_freq_factor": rope.llama3.high_freq_factor,
            "original_max_position_embeddings": rope.llama3.original_context,
        }
    elif rope.linear_factor != 1.0:
        scaling = {"rope_type": "linear", "factor": rope.linear_factor}
    return {"rope_theta": rope.theta, **({"rope_scaling": scaling} if scaling else {})}


def _speculators_config() -> dict[str, Any]:
    return {
        "algorithm": "eagle3",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
        "default_proposal_method": "greedy",
        "verifier": {"name_or_path": None, "architectures": ["LlamaForCausalLM"]},
    }

"""Configs that cannot be served are refused by name; those that can are read in every spelling."""

from __future__ import annotations

from typing import Any

import pytest

from builders import TINY_CONFIG
from eagle3.errors import ConfigError, Eagle3Error, UnsupportedModelError
from eagle3.models.architecture import Llama3Scaling, architecture_from_gguf, architecture_from_hf

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
GGUF = {
    "general.architecture": "llama",
    "llama.embedding_length": 16,
    "llama.feed_forward_length": 24,
    "llama.block_count": 6,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}


def without(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    """`mapping` less one key."""
    return {name: value for name, value in mapping.items() if name != key}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"architectures": ["MistralForCausalLM"]}, UnsupportedModelError, "'MistralForCausalLM' is not supported"),
        ({"architectures": []}, UnsupportedModelError, "'\\(none\\)' is not supported; allowed: LlamaForCausalLM"),
        ({"architectures": "LlamaForCausalLM"}, UnsupportedModelError, "\\(none\\)"),
        ({"hidden_act": "gelu"}, UnsupportedModelError, "hidden_act 'gelu'"),
        ({"use_sliding_window": True}, UnsupportedModelError, "sliding-window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, UnsupportedModelError, "sliding-window"),
        ({"quantization_config": {"quant_method": "gptq"}}, UnsupportedModelError, "quantization_config"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, UnsupportedModelError, "rope type 'yarn'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, UnsupportedModelError, "rope type 'dynamic'"),
        ({"rope_parameters": {"rope_type": "longrope"}}, UnsupportedModelError, "rope type 'longrope'"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, UnsupportedModelError, "each layer type"),
        ({"partial_rotary_factor": 0.5}, UnsupportedModelError, "partial_rotary_factor"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, UnsupportedModelError, "partial_rotary_factor"),
        ({"rope_scaling": "linear"}, ConfigError, "must be an object; got 'linear'"),
        ({"rope_scaling": {"type": "linear"}}, ConfigError, "lacks 'factor'"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, ConfigError, "factor must be a positive number; got 0"),
        ({"rope_scaling": without(LLAMA3, "low_freq_factor")}, ConfigError, "lacks 'low_freq_factor'"),
        ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, ConfigError, "must be below high_freq_factor"),
        ({"rope_theta": float("nan")}, ConfigError, "rope_theta must be a positive number"),
        ({"num_key_value_heads": 3}, ConfigError, "must divide num_attention_heads; got 3 and 4"),
        ({"num_key_value_heads": 0}, ConfigError, "num_key_value_heads must be a whole number of at least 1; got 0"),
        ({"head_dim": 5}, ConfigError, "head_dim must be even"),
        ({"hidden_size": 18}, ConfigError, "4 heads do not divide the hidden width 18"),
        ({"hidden_size": "16"}, ConfigError, "hidden_size must be a whole number of at least 1; got '16'"),
        ({"num_hidden_layers": 0}, ConfigError, "num_hidden_layers must be a whole number of at least 1; got 0"),
        ({"num_hidden_layers": 5.5}, ConfigError, "num_hidden_layers must be a whole number"),
        ({"intermediate_size": True}, ConfigError, "intermediate_size must be a whole number"),
        ({"rms_norm_eps": -1e-5}, ConfigError, "rms_norm_eps must be a positive number"),
    ],
)
def test_hf_config_refused(change: dict[str, Any], error: type[Eagle3Error], message: str) -> None:
    """What the decoder does not implement, or what contradicts itself, is an error that names the key."""
    with pytest.raises(error, match=message):
        architecture_from_hf(TINY_CONFIG | change)


@pytest.mark.parametrize(
    "key", ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]
)
def test_hf_config_lacks_a_size(key: str) -> None:
    """A size without a default is asked for by its name."""
    with pytest.raises(ConfigError, match=f"lacks '{key}'"):
        architecture_from_hf(without(TINY_CONFIG, key))


def test_null_means_absent() -> None:
    """A key with the value null takes the default, as Hugging Face writes `rope_scaling: null`."""
    nulls = dict.fromkeys(["rope_scaling", "rope_theta", "head_dim", "num_key_value_heads", "quantization_config"])
    arch = architecture_from_hf(TINY_CONFIG | nulls)
    assert (arch.head_dim, arch.num_kv_heads, arch.rope.theta) == (4, 4, 10000.0)


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_theta": 5e5, "rope_scaling": LLAMA3},
        {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **without(LLAMA3, "rope_type")}},
        {"rope_theta": None, "rope_parameters": LLAMA3 | {"rope_theta": 5e5}},
    ],
)
def test_rope_spellings(spelling: dict[str, Any]) -> None:
    """transformers 4 and 5 spell the same rotary embedding differently."""
    rope = architecture_from_hf(TINY_CONFIG | spelling).rope
    assert rope.theta == 5e5
    assert rope.llama3 == Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192)


def test_disabled_sliding_window_is_served() -> None:
    """Qwen2 states a window that it does not use; that is no reason to refuse it."""
    change = {"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False, "sliding_window": 4096}
    assert architecture_from_hf(TINY_CONFIG | change).qkv_bias


@pytest.mark.parametrize(
    ("layers", "taps"), [(6, None), (7, (2, 3, 4)), (8, (2, 4, 5)), (30, (2, 15, 27)), (32, (2, 16, 29))]
)
def test_default_taps(layers: int, taps: tuple[int, int, int] | None) -> None:
    """2, n // 2 and n - 3 where these rise; else an error that says how to name the layers."""
    arch = architecture_from_hf(TINY_CONFIG | {"num_hidden_layers": layers})
    if taps is None:
        with pytest.raises(UnsupportedModelError, match="name them with eagle_aux_hidden_state_layer_ids"):
            arch.default_tap_inputs()
    else:
        assert arch.default_tap_inputs() == taps


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"general.architecture": "gemma3"}, UnsupportedModelError, "GGUF architecture 'gemma3'"),
        ({"llama.rope.scaling.type": "yarn"}, UnsupportedModelError, "GGUF rope scaling 'yarn'"),
        ({"llama.rope.scaling.type": "linear"}, ConfigError, "lacks 'rope.scaling.factor'"),
        ({"llama.attention.sliding_window": 128}, UnsupportedModelError, "sliding-window"),
        (
            {"llama.rope.dimension_count": 2},
            UnsupportedModelError,
            "rope.dimension_count must be the head width 4, got 2",
        ),
        ({"llama.attention.head_count_kv": [2, 1]}, ConfigError, "head_count_kv must be a whole number"),
        ({"llama.attention.head_count": None}, ConfigError, "lacks 'attention.head_count'"),
    ],
)
def test_gguf_metadata_refused(change: dict[str, Any], error: type[Eagle3Error], message: str) -> None:
    """The same holds for GGUF metadata."""
    with pytest.raises(error, match=message):
        architecture_from_gguf(GGUF | change, vocab_size=40, tied=True, frequency_divisors=None)


def test_gguf_rope_divisors_of_another_width() -> None:
    """rope_freqs.weight holds one divisor for each pair of a head."""
    with pytest.raises(ConfigError, match=r"rope_freqs\.weight must hold 2 values"):
        architecture_from_gguf(GGUF, vocab_size=40, tied=True, frequency_divisors=(1.0, 1.0, 1.0))

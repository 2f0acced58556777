"""The shape of a Llama-family decoder, read from a Hugging Face config.json or from GGUF metadata.

Knows names and numbers, no tensors. Invariant: an `Architecture` that exists can be built; whatever the
decoder does not implement (another activation, attention sinks, experts) has been refused here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle3.errors import ConfigError, UnsupportedModelError

# Hugging Face `architectures` entry -> (biases on q, k and v, per-head RMSNorm on q and k)
HF_FAMILIES: dict[str, tuple[bool, bool]] = {
    "LlamaForCausalLM": (False, False),
    "Qwen2ForCausalLM": (True, False),
    "Qwen3ForCausalLM": (False, True),
}
GGUF_FAMILIES: dict[str, str] = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Llama3Scaling:
    """Llama 3.1 rotary frequency scaling (`rope_type: llama3` of a Hugging Face config)."""

    factor: float
    """Divisor of the low frequencies."""
    low_freq_factor: float
    """Wavelengths above original_context / low_freq_factor are divided by `factor`."""
    high_freq_factor: float
    """Wavelengths below original_context / high_freq_factor are left alone."""
    original_context: int
    """Context length in tokens that the model was first trained on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rope:
    """Rotary position embedding: base and, optionally, one scaling."""

    theta: float = 10000.0
    """Base of the geometric series of inverse frequencies."""
    linear_factor: float = 1.0
    """Position interpolation (`rope_type: linear`): every position is divided by it."""
    llama3: Llama3Scaling | None = None
    """Llama 3.1 scaling, or None."""
    frequency_divisors: tuple[float, ...] | None = None
    """One divisor for each inverse frequency (GGUF `rope_freqs.weight`, Llama 3.x), or None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """Widths and options of one decoder; sizes are counts, `rms_eps` and `rope` are dimensionless."""

    family: str
    """Hugging Face architecture name, e.g. `LlamaForCausalLM`."""
    vocab_size: int
    """Rows of the embedding matrix, padding rows included."""
    hidden_size: int
    """Width H of the residual stream."""
    intermediate_size: int
    """Width of the SwiGLU hidden layer."""
    num_layers: int
    """Decoder layers."""
    num_heads: int
    """Query heads."""
    num_kv_heads: int
    """Key/value heads; divides `num_heads`."""
    head_dim: int
    """Width of one head; need not be hidden_size / num_heads."""
    rms_eps: float
    """Epsilon of every RMSNorm."""
    max_position: int
    """Context length in tokens that the target supports."""
    tied_embeddings: bool
    """Whether the output head is the embedding matrix."""
    rope: Rope
    """Rotary embedding."""
    qkv_bias: bool = False
    """Biases on the query, key and value projections (Qwen2)."""
    output_bias: bool = False
    """Bias on the attention's output projection (`attention_bias: true` of a Llama config)."""
    mlp_bias: bool = False
    """Biases on the three SwiGLU projections (`mlp_bias: true` of a Llama config)."""
    qk_norm: bool = False
    """Per-head RMSNorm of queries and keys before the rotary embedding (Qwen3)."""

    def default_tap_inputs(self) -> tuple[int, int, int]:
        """Default tap layers as inputs of layers: 2, n // 2 and n - 3 (EAGLE-3 reference code).

        Raises UnsupportedModelError when the model has fewer than seven layers, for which the three
        defaults would not be distinct and ordered.
        """
        n = self.num_layers
        if not 2 < n // 2 < n - 3:
            raise UnsupportedModelError(
                f"no default tap layers for a target of {n} layers (the defaults 2, {n // 2}, {n - 3} must "
                "rise); name them with eagle_aux_hidden_state_layer_ids in the draft's config"
            )
        return (2, n // 2, n - 3)


def architecture_from_hf(config: Mapping[str, Any]) -> Architecture:
    """Read a Hugging Face `config.json`; raise UnsupportedModelError for what is not implemented."""
    names = config.get("architectures")
    family = names[0] if isinstance(names, list) and names else "(none)"
    if family not in HF_FAMILIES:
        raise UnsupportedModelError(
            f"target architecture {family!r} is not supported; allowed: {', '.join(sorted(HF_FAMILIES))}"
        )
    _refuse_unsupported(config)
    qkv_bias, qk_norm = HF_FAMILIES[family]
    attention_bias = bool(config.get("attention_bias", False))
    hidden = _positive(config, "hidden_size")
    heads = _positive(config, "num_attention_heads")
    return checked(
        Architecture(
            family=family,
            vocab_size=_positive(config, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=_positive(config, "intermediate_size"),
            num_layers=_positive(config, "num_hidden_layers"),
            num_heads=heads,
            num_kv_heads=_positive(config, "num_key_value_heads", heads),
            head_dim=_head_dim(config, "head_dim", hidden, heads),
            rms_eps=_positive_real(config, "rms_norm_eps", 1e-6),
            max_position=_positive(config, "max_position_embeddings", 2048),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            rope=rope_from_hf(config),
            qkv_bias=qkv_bias or attention_bias,
            output_bias=attention_bias and family != "Qwen2ForCausalLM",
            mlp_bias=bool(config.get("mlp_bias", False)),
            qk_norm=qk_norm,
        )
    )


def rope_from_hf(config: Mapping[str, Any]) -> Rope:
    """Read `rope_parameters` (transformers 5) or `rope_theta` with `rope_scaling` (before)."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise ConfigError(f"model config: rope scaling must be an object; got {scaling!r}")
    if any(isinstance(value, Mapping) for value in scaling.values()):
        raise UnsupportedModelError("a rotary embedding for each layer type is not supported; allowed: one for all")
    for fields in (scaling, config):
        if fields.get("partial_rotary_factor") not in (None, 1, 1.0):
            raise UnsupportedModelError("partial rotary embeddings are not supported; partial_rotary_factor must be 1")
    theta = _positive_real(scaling, "rope_theta", _positive_real(config, "rope_theta", 10000.0))
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "default":
        return Rope(theta=theta)
    if kind == "linear":
        return Rope(theta=theta, linear_factor=_positive_real(scaling, "factor"))
    if kind == "llama3":
        low, high = (_positive_real(scaling, f"{side}_freq_factor") for side in ("low", "high"))
        if low >= high:
            raise ConfigError(f"model config: low_freq_factor must be below high_freq_factor; got {low} and {high}")
        return Rope(
            theta=theta,
            llama3=Llama3Scaling(
                factor=_positive_real(scaling, "factor"),
                low_freq_factor=low,
                high_freq_factor=high,
                original_context=_positive(scaling, "original_max_position_embeddings"),
            ),
        )
    raise UnsupportedModelError(f"rope type {kind!r} is not supported; allowed: default, linear, llama3")


def architecture_from_gguf(
    metadata: Mapping[str, Any], vocab_size: int, tied: bool, frequency_divisors: tuple[float, ...] | None
) -> Architecture:
    """Read GGUF key-value metadata (`llama.*`, `qwen2.*`, `qwen3.*` keys of the GGUF specification).

    `vocab_size` is the number of rows of `token_embd.weight`; `tied` says that no `output.weight` is there;
    `frequency_divisors` are the values of `rope_freqs.weight`, if the file has it.
    """
    name = str(metadata.get("general.architecture", "(none)"))
    if name not in GGUF_FAMILIES:
        raise UnsupportedModelError(
            f"GGUF architecture {name!r} is not supported; allowed: {', '.join(sorted(GGUF_FAMILIES))}"
        )
    family = GGUF_FAMILIES[name]
    fields = {key.removeprefix(f"{name}."): value for key, value in metadata.items()}
    scaling = fields.get("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedModelError(f"GGUF rope scaling {scaling!r} is not supported; allowed: none, linear")
    if fields.get("attention.sliding_window"):
        raise UnsupportedModelError("sliding-window attention is not supported; got attention.sliding_window in GGUF")
    heads = _positive(fields, "attention.head_count")
    hidden = _positive(fields, "embedding_length")
    head_dim = _head_dim(fields, "attention.key_length", hidden, heads)
    if _positive(fields, "rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedModelError(
            f"partial rotary embeddings are not supported; rope.dimension_count must be the head width {head_dim}, "
            f"got {fields['rope.dimension_count']}"
        )
    if frequency_divisors is not None and len(frequency_divisors) != head_dim // 2:
        raise ConfigError(
            f"rope_freqs.weight must hold {head_dim // 2} values, half the head width; got {len(frequency_divisors)}"
        )
    qkv_bias, qk_norm = HF_FAMILIES[family]
    return checked(
        Architecture(
            family=family,
            vocab_size=vocab_size,
            hidden_size=hidden,
            intermediate_size=_positive(fields, "feed_forward_length"),
            num_layers=_positive(fields, "block_count"),
            num_heads=heads,
            num_kv_heads=_positive(fields, "attention.head_count_kv", heads),
            head_dim=head_dim,
            rms_eps=_positive_real(fields, "attention.layer_norm_rms_epsilon", 1e-6),
            max_position=_positive(fields, "context_length", 2048),
            tied_embeddings=tied,
            rope=Rope(
                theta=_positive_real(fields, "rope.freq_base", 10000.0),
                linear_factor=_positive_real(fields, "rope.scaling.factor") if scaling == "linear" else 1.0,
                frequency_divisors=frequency_divisors,
            ),
            qkv_bias=qkv_bias,
            qk_norm=qk_norm,
        )
    )


def checked(arch: Architecture) -> Architecture:
    """Return `arch` unchanged, or raise ConfigError when its sizes contradict each other."""
    if arch.num_heads % arch.num_kv_heads:
        raise ConfigError(
            f"num_key_value_heads must divide num_attention_heads; got {arch.num_kv_heads} and {arch.num_heads}"
        )
    if arch.head_dim % 2:
        raise ConfigError(f"head_dim must be even for rotary embeddings; got {arch.head_dim}")
    return arch


def _refuse_unsupported(config: Mapping[str, Any]) -> None:
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedModelError(f"hidden_act {activation!r} is not supported; allowed: 'silu'")
    kinds = config.get("layer_types") or []
    if config.get("use_sliding_window") or any(kind != "full_attention" for kind in kinds):
        raise UnsupportedModelError(
            "sliding-window attention is not supported; allowed: use_sliding_window false and every one of "
            "layer_types 'full_attention'"
        )
    if config.get("quantization_config"):
        raise UnsupportedModelError(
            "a checkpoint with quantization_config is not supported; take its unquantised weights or a GGUF file"
        )


def _head_dim(fields: Mapping[str, Any], key: str, hidden: int, heads: int) -> int:
    if fields.get(key) is None and hidden % heads:
        raise ConfigError(f"model config lacks {key!r}, and {heads} heads do not divide the hidden width {hidden}")
    return _positive(fields, key, hidden // heads)


def _positive(fields: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = default if fields.get(key) is None else fields[key]
    if value is None:
        raise ConfigError(f"model config lacks {key!r}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"model config: {key} must be a whole number of at least 1; got {value!r}")
    return value


def _positive_real(fields: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = default if fields.get(key) is None else fields[key]
    if value is None:
        raise ConfigError(f"model config lacks {key!r}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise ConfigError(f"model config: {key} must be a positive number; got {value!r}")
    return float(value)

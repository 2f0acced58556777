"""Reads every upstream spelling of an EAGLE-3 config into `DraftConfig`.

Knows tensors by name and shape only. Invariant: a key that is neither understood nor known to be harmless is an
error, so no flag that changes the forward pass is ever dropped.

`norm_output` has two meanings under one name. vLLM, SGLang, TensorRT-LLM, speculators and SpecForge since
September 2026 (#879): true feeds the post-norm hidden state back, default false. SpecForge before: true means
only that the final norm stands before the head, which it always does here, default true. In the original layout,
where the two meet, SpecForge's meaning is taken only if the config shows SpecForge's hand (a key that only it
writes, `target_model_type`) and none of EAGLE-3.1's other flags; otherwise the engines' meaning. Either way a
written file reads back to the same draft: SpecForge's flag travels among the ignorable keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from eagle3.errors import ConfigError, UnsupportedModelError
from eagle3.models import draft_keys as keys
from eagle3.models.architecture import rope_from_hf
from eagle3.models.draft_config import DraftConfig

_EAGLE1 = "this is an EAGLE-1/2 head, not an EAGLE-3 draft: {}; give a draft trained for EAGLE-3"


def detect_format(raw: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> keys.DraftFormat:
    """Which exporter wrote a draft, from its config and its tensors under `Draft`'s names plus d2t and t2d."""
    if "speculators_model_type" in raw or "transformer_layer_config" in raw:
        return "speculators"
    eagle_config = raw.get("eagle_config")
    if isinstance(eagle_config, Mapping) and (
        set(eagle_config) & (set(keys.FIXED_EAGLE_CONFIG) | keys.IGNORED_EAGLE_CONFIG)
        or ("d2t" in tensors and "t2d" not in tensors)
    ):
        return "nvidia"
    return "original"


def parse_draft_config(
    raw: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    draft_format: keys.DraftFormat,
    convention: keys.TapConvention,
) -> tuple[DraftConfig, dict[str, Any]]:
    """The config and the ignorable keys that a lossless write puts back; `tensors` under `Draft`'s names."""
    flat = _flatten(raw) if draft_format == "speculators" else dict(raw)
    eagle_config = flat.get("eagle_config") or {}
    if not isinstance(eagle_config, Mapping):
        raise ConfigError(f"draft config: eagle_config must be an object; got {eagle_config!r}")
    _refuse_eagle1(flat, eagle_config, tensors)
    _refuse_unknown(flat, eagle_config)
    _refuse_unsupported(flat, eagle_config, tensors)

    hidden = _count(flat, "hidden_size")
    heads = _count(flat, "num_attention_heads")
    kv_heads = _count(flat, "num_key_value_heads", heads)
    head_dim = _count(flat, "head_dim", hidden // heads)
    if heads % kv_heads or head_dim % 2:
        raise ConfigError(
            "draft config: num_key_value_heads must divide num_attention_heads and head_dim must be even; "
            f"got {kv_heads}, {heads} and {head_dim}"
        )
    tap_inputs = _tap_inputs(flat, eagle_config, convention)
    num_taps = _count(flat, "num_aux_hidden_states", len(tap_inputs or (0, 0, 0)))
    if tap_inputs is not None and len(tap_inputs) != num_taps:
        raise ConfigError(
            f"draft config: num_aux_hidden_states is {num_taps}, but {keys.TAP_IDS_KEY} names {len(tap_inputs)} layers"
        )
    fc_norm, norm_before_fc = _flag(flat, "fc_norm"), _flag(flat, "norm_before_fc")
    if fc_norm and norm_before_fc:
        raise ConfigError("draft config: fc_norm and norm_before_fc exclude each other; set one of them to false")
    norm_output = _flag(flat, "norm_output")
    specforge = (
        draft_format == "original" and norm_output and not (fc_norm or norm_before_fc) and _shows_specforge(flat)
    )
    vocab = _count(flat, "vocab_size")
    config = DraftConfig(
        hidden_size=hidden,
        intermediate_size=_count(flat, "intermediate_size"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        rms_eps=_real(flat, "rms_norm_eps", 1e-6),
        rope=rope_from_hf(flat),
        vocab_size=vocab,
        draft_vocab_size=_count(flat, "draft_vocab_size", vocab),
        target_hidden_size=_count(flat, "target_hidden_size", _fused_width(tensors, num_taps, hidden)),
        num_taps=num_taps,
        tap_inputs=tap_inputs,
        norm_before_residual=_flag(flat, "norm_before_residual"),
        norm_before_fc=norm_before_fc,
        fc_norm=fc_norm,
        feedback_normed=norm_output and not specforge,
        own_embedding="embed_tokens.weight" in tensors,
        qkv_bias=_has_bias(flat, tensors),
    )
    carried = keys.IGNORABLE_KEYS - keys.DTYPE_KEYS
    extra = {key: value for key, value in flat.items() if key in carried}
    return config, extra | ({"norm_output": True} if specforge else {})


def _flatten(raw: Mapping[str, Any]) -> dict[str, Any]:
    layer = raw.get("transformer_layer_config")
    if not isinstance(layer, Mapping):
        raise ConfigError(f"draft config: transformer_layer_config must be an object; got {layer!r}")
    outer = {key: value for key, value in raw.items() if key != "transformer_layer_config" and value is not None}
    return {**layer, **outer}


def _shows_specforge(flat: Mapping[str, Any]) -> bool:
    return any(key in flat for key in keys.SPECFORGE_KEYS)


def _refuse_eagle1(flat: Mapping[str, Any], eagle_config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    names = flat.get("architectures") or []
    if any(name in keys.EAGLE1_ARCHITECTURES for name in names) or flat.get("speculators_model_type") == "eagle":
        raise UnsupportedModelError(_EAGLE1.format(f"its config says {names or 'eagle'}"))
    if eagle_config.get("use_aux_hidden_state") is False:
        raise UnsupportedModelError(_EAGLE1.format("eagle_config.use_aux_hidden_state is false"))
    hidden, query = flat.get("hidden_size"), tensors.get("midlayer.self_attn.q_proj.weight")
    if query is not None and query.dim() == 2 and query.shape[1] == hidden:
        raise UnsupportedModelError(_EAGLE1.format(f"q_proj reads width {hidden}, EAGLE-3 reads {2 * query.shape[1]}"))
    fusion = tensors.get("fc.weight")
    taps_named = bool(flat.get("num_aux_hidden_states") or flat.get(keys.TAP_IDS_KEY))
    taps_named = taps_named or bool(eagle_config.get(keys.TAP_IDS_KEY))
    if fusion is None or fusion.dim() != 2 or not isinstance(hidden, int) or taps_named:
        return
    if fusion.shape[1] in (hidden, 2 * hidden) and flat.get("target_hidden_size") in (None, hidden):
        raise UnsupportedModelError(
            _EAGLE1.format(
                f"fc.weight is {list(fusion.shape)}, EAGLE-3 fuses three features into [{hidden}, {3 * hidden}]"
            )
        )


def _refuse_unknown(flat: Mapping[str, Any], eagle_config: Mapping[str, Any]) -> None:
    known = keys.READ_KEYS | keys.IGNORABLE_KEYS | set(keys.FIXED_VALUES) | {"quantization_config"}
    inner = keys.READ_EAGLE_CONFIG | keys.IGNORED_EAGLE_CONFIG | set(keys.FIXED_EAGLE_CONFIG)
    unknown = sorted(key for key, value in flat.items() if key not in known and value is not None)
    unknown += sorted(
        f"eagle_config.{key}" for key, value in eagle_config.items() if key not in inner and value is not None
    )
    if unknown:
        raise UnsupportedModelError(
            f"draft config has keys that this runtime does not know and that could change the forward pass: "
            f"{', '.join(unknown)}; remove them only if they are without effect"
        )


def _refuse_unsupported(
    flat: Mapping[str, Any], eagle_config: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    names = flat.get("architectures") or ["LlamaForCausalLMEagle3"]
    if names[0] not in keys.EAGLE3_ARCHITECTURES:
        raise UnsupportedModelError(
            f"draft architecture {names[0]!r} is not supported; allowed: {', '.join(keys.EAGLE3_ARCHITECTURES)}"
        )
    for prefix, given, fixed in (
        ("", flat, keys.FIXED_VALUES),
        ("eagle_config.", eagle_config, keys.FIXED_EAGLE_CONFIG),
    ):
        for key, allowed in fixed.items():
            if given.get(key) is not None and given[key] != allowed:
                raise UnsupportedModelError(
                    f"draft config: {prefix}{key} = {given[key]!r} is not supported; allowed: {allowed!r}"
                )
    if any(kind != "full_attention" for kind in flat.get("layer_types") or []):
        raise UnsupportedModelError(
            f"draft config: layer_types {flat['layer_types']} is not supported; allowed: full_attention"
        )
    if flat.get("quantization_config"):
        raise UnsupportedModelError("a draft with quantization_config is not supported; take its unquantised weights")
    if flat.get("tie_word_embeddings") and "lm_head.weight" not in tensors:
        raise UnsupportedModelError("a draft whose head is its embedding is not supported; store lm_head.weight")
    for name in ("self_attn.q_norm.weight", "self_attn.k_norm.weight", "self_attn.o_proj.bias"):
        if f"midlayer.{name}" in tensors:
            raise UnsupportedModelError(
                f"a draft layer with {name} is not supported; allowed: the Llama layer of EAGLE-3, without query and "
                "key norms and without an output bias"
            )


def _tap_inputs(
    flat: Mapping[str, Any], eagle_config: Mapping[str, Any], convention: keys.TapConvention
) -> tuple[int, ...] | None:
    outer, inner = flat.get(keys.TAP_IDS_KEY) or None, eagle_config.get(keys.TAP_IDS_KEY) or None
    if outer is not None and inner is not None and outer != inner:
        raise ConfigError(f"draft config: {keys.TAP_IDS_KEY} is {outer} and in eagle_config {inner}; keep one")
    ids = outer if outer is not None else inner
    if ids is None:
        return None
    if not isinstance(ids, list) or not all(type(tap) is int and tap >= 0 for tap in ids):
        raise ConfigError(f"draft config: {keys.TAP_IDS_KEY} must list layer numbers from 0 up; got {ids!r}")
    return tuple(tap + 1 for tap in ids) if convention == "output" else tuple(ids)


def _has_bias(flat: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    if flat.get("attention_bias") is None and flat.get("qkv_bias") is None:
        return "midlayer.self_attn.q_proj.bias" in tensors
    return _flag(flat, "attention_bias") or _flag(flat, "qkv_bias")


def _fused_width(tensors: Mapping[str, Tensor], num_taps: int, hidden: int) -> int:
    fusion = tensors.get("fc.weight")
    if fusion is None or fusion.dim() != 2 or fusion.shape[1] % num_taps:
        return hidden
    return fusion.shape[1] // num_taps


def _count(flat: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = default if flat.get(key) is None else flat[key]
    if value is None:
        raise ConfigError(f"draft config lacks {key!r}")
    if type(value) is not int or value < 1:
        raise ConfigError(f"draft config: {key} must be a whole number of at least 1; got {value!r}")
    return value


def _real(flat: Mapping[str, Any], key: str, default: float) -> float:
    value = default if flat.get(key) is None else flat[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"draft config: {key} must be a positive number; got {value!r}")
    return float(value)


def _flag(flat: Mapping[str, Any], key: str) -> bool:
    value = flat.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"draft config: {key} must be true or false; got {value!r}")
    return bool(value)

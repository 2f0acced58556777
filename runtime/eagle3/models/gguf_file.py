"""Reads a Llama-family GGUF file into Hugging Face tensor names; the only module that knows GGUF names.

Quantised blocks become float32. GGUF stores the query and key rows of `llama` models for interleaved rotary pairs;
they are put back into the halves layout here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from eagle3.errors import WeightsError
from eagle3.models.architecture import Architecture, architecture_from_gguf
from eagle3.models.gguf_blocks import dequantised
from eagle3.models.gguf_header import GgufHeader, read_header

_GLOBAL_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_DIVISORS = "rope_freqs.weight"


def read_gguf(path: Path) -> tuple[Architecture, dict[str, Tensor]]:
    """Architecture and float32 tensors under Hugging Face names; WeightsError when the file is unreadable."""
    header = read_header(path)
    arch = _architecture(header, path)
    tensors: dict[str, Tensor] = {}
    for name in header.tensors:
        if name == _ROPE_DIVISORS:
            continue
        weight = _values(header, name, path)
        hf_name = _hf_name(name, path)
        if arch.family == "LlamaForCausalLM" and ".q_proj." in hf_name:
            weight = _halves_from_pairs(weight, arch.num_heads, arch.head_dim, f"{path}: {name}")
        if arch.family == "LlamaForCausalLM" and ".k_proj." in hf_name:
            weight = _halves_from_pairs(weight, arch.num_kv_heads, arch.head_dim, f"{path}: {name}")
        tensors[hf_name] = weight
    return arch, tensors


def read_gguf_architecture(path: Path) -> Architecture:
    """Architecture alone, without dequantising anything; WeightsError when the file is unreadable."""
    return _architecture(read_header(path), path)


def _values(header: GgufHeader, name: str, path: Path) -> Tensor:
    """One tensor in float32, read from the file."""
    place = header.tensors[name]
    stored = np.fromfile(path, dtype=np.uint8, count=place.nbytes, offset=place.offset)
    try:
        return dequantised(stored, place.kind, place.shape)
    except ValueError as error:
        raise WeightsError(f"{path}: tensor {name} cannot be dequantised: {error}") from error


def _architecture(header: GgufHeader, path: Path) -> Architecture:
    raw = header.tensors
    if "token_embd.weight" not in raw:
        raise WeightsError(f"{path} has no token_embd.weight; it is not a decoder model")
    arch = architecture_from_gguf(
        header.metadata,
        vocab_size=raw["token_embd.weight"].shape[0],
        tied="output.weight" not in raw,
        frequency_divisors=(
            tuple(_values(header, _ROPE_DIVISORS, path).flatten().tolist()) if _ROPE_DIVISORS in raw else None
        ),
    )
    # No metadata key speaks of biases: llama.cpp takes whichever are there.
    return replace(
        arch,
        qkv_bias=arch.qkv_bias or "blk.0.attn_q.bias" in raw,
        output_bias="blk.0.attn_output.bias" in raw,
        mlp_bias="blk.0.ffn_gate.bias" in raw,
    )


def _hf_name(name: str, path: Path) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _GLOBAL_NAMES:
        return f"{_GLOBAL_NAMES[stem]}.{kind}"
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if match and match[2] in _LAYER_NAMES:
        return f"model.layers.{match[1]}.{_LAYER_NAMES[match[2]]}.{kind}"
    raise WeightsError(f"{path}: tensor {name!r} belongs to no supported architecture")


def _halves_from_pairs(weight: Tensor, heads: int, head_dim: int, label: str) -> Tensor:
    """Undo the row permutation that GGUF conversion applies to the rotary dimensions of each head."""
    rows = weight.shape[0]
    if rows != heads * head_dim:
        raise WeightsError(f"{label} has {rows} rows; the metadata asks for {heads} heads of {head_dim}")
    return weight.view(heads, head_dim // 2, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)

"""Reads a Llama-family GGUF file into Hugging Face tensor names; the only module that knows GGUF names.

Quantised blocks are dequantised to float32 by the `gguf` package. GGUF stores the query and key rows of
`llama` models for interleaved rotary pairs; they are put back into the halves layout here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from torch import Tensor

from eagle3.errors import WeightsError
from eagle3.models.architecture import Architecture, architecture_from_gguf

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
    reader = _open(path)
    arch = _architecture(reader, path)
    raw = {tensor.name: tensor for tensor in reader.tensors if tensor.name != _ROPE_DIVISORS}
    tensors: dict[str, Tensor] = {}
    for name, tensor in raw.items():
        # GGUFReader maps the file; the copy lets go of it. ne[] counts fastest axis first, hence the reversal.
        try:
            values = np.array(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32, copy=True)
        except (ValueError, NotImplementedError) as error:
            raise WeightsError(f"{path}: tensor {name} cannot be dequantised: {error}") from error
        weight = torch.from_numpy(values.reshape(tuple(int(n) for n in reversed(tensor.shape))))
        hf_name = _hf_name(name, path)
        if arch.family == "LlamaForCausalLM" and ".q_proj." in hf_name:
            weight = _halves_from_pairs(weight, arch.num_heads, arch.head_dim, f"{path}: {name}")
        if arch.family == "LlamaForCausalLM" and ".k_proj." in hf_name:
            weight = _halves_from_pairs(weight, arch.num_kv_heads, arch.head_dim, f"{path}: {name}")
        tensors[hf_name] = weight
    return arch, tensors


def read_gguf_architecture(path: Path) -> Architecture:
    """Architecture alone, without dequantising anything; WeightsError when the file is unreadable."""
    return _architecture(_open(path), path)


def _open(path: Path) -> GGUFReader:
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise WeightsError(f"{path} is truncated or not a GGUF file: {error}") from error


def _architecture(reader: GGUFReader, path: Path) -> Architecture:
    metadata = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
    raw = {tensor.name: tensor for tensor in reader.tensors}
    if "token_embd.weight" not in raw:
        raise WeightsError(f"{path} has no token_embd.weight; it is not a decoder model")
    divisors = raw.get(_ROPE_DIVISORS)
    arch = architecture_from_gguf(
        metadata,
        vocab_size=int(raw["token_embd.weight"].shape[1]),
        tied="output.weight" not in raw,
        frequency_divisors=None if divisors is None else tuple(float(value) for value in divisors.data),
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

"""Writes a loaded target as a Hugging Face directory, for engines that cannot read what it came from (GGUF).

Knows no engines. Invariant: `load_target` of the written directory gives bit-equal parameters in the dtype
written, the same architecture and the same tokens that end a text. config.json is renamed into place last, so a
directory that has one is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from eagle3.errors import WeightsError
from eagle3.models.architecture import Architecture
from eagle3.models.draft_config_write import rope_keys
from eagle3.models.target import Target
from eagle3.models.tokenizer import Tokenizer

_MODEL_TYPES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}


def export_target(target: Target, tokenizer: Tokenizer, path: Path) -> None:
    """Write weights in the target's dtype, config, generation config and tokenizer into `path`."""
    path.mkdir(parents=True, exist_ok=True)
    tensors = {_hf_name(name): value for name, value in target.named_parameters()}  # a tied head is named once
    try:
        tokenizer.backend.save_pretrained(str(path))
        _write_json(path / "generation_config.json", {"eos_token_id": sorted(tokenizer.ending_ids)})
        _replace(path / "model.safetensors", lambda part: save_file(_copies(tensors), part, {"format": "pt"}))
        _write_json(path / "config.json", _config(target, tokenizer))
    except OSError as error:
        raise WeightsError(
            f"cannot write the exported target to {path}: {error.strerror or error}; name a directory with room for "
            f"{sum(value.nbytes for value in tensors.values()) // 2**20 + 1} MiB"
        ) from error


def _hf_name(name: str) -> str:
    return name if name.startswith("lm_head.") else f"model.{name}"


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def _config(target: Target, tokenizer: Tokenizer) -> dict[str, Any]:
    arch = target.arch
    return {
        "architectures": [arch.family],
        "attention_bias": _attention_bias(arch),
        "eos_token_id": sorted(tokenizer.ending_ids),
        "head_dim": arch.head_dim,
        "hidden_act": "silu",
        "hidden_size": arch.hidden_size,
        "intermediate_size": arch.intermediate_size,
        "max_position_embeddings": arch.max_position,
        "mlp_bias": arch.mlp_bias,
        "model_type": _MODEL_TYPES[arch.family],
        "num_attention_heads": arch.num_heads,
        "num_hidden_layers": arch.num_layers,
        "num_key_value_heads": arch.num_kv_heads,
        "rms_norm_eps": arch.rms_eps,
        "tie_word_embeddings": arch.tied_embeddings,
        "torch_dtype": str(target.norm.weight.dtype).removeprefix("torch."),
        "vocab_size": arch.vocab_size,
        **rope_keys(arch.rope),
    }


def _attention_bias(arch: Architecture) -> bool:
    """The one flag that Hugging Face has for the biases of q, k, v and of the output projection."""
    if arch.family == "Qwen2ForCausalLM":
        return False  # always biased on q, k and v; the flag would add the output's
    if arch.qkv_bias != arch.output_bias:
        raise WeightsError(
            f"a {arch.family} with biases on only some attention projections cannot be written as a Hugging Face "
            "model; serve it with the native engine"
        )
    return arch.qkv_bias


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    _replace(path, lambda part: part.write_text(text, encoding="utf-8"))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(part)
        part.chmod(0o644)  # safetensors writes 0600
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

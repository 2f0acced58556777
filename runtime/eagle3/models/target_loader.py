"""Builds a `Target` from a Hugging Face directory or a GGUF file, and refuses weights that do not fit.

Invariant: a returned target has every parameter filled from the file, with finite values and the shapes
that its architecture asks for.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from eagle3.errors import UnsupportedModelError, WeightsError
from eagle3.models.architecture import Architecture, architecture_from_hf
from eagle3.models.checkpoint import read_config, read_tensors
from eagle3.models.gguf_file import read_gguf, read_gguf_architecture
from eagle3.models.rope import inverse_frequencies
from eagle3.models.target import Target
from eagle3.models.unfilled import unfilled

# Buffers that old exporters wrote and that the architecture already determines.
_IGNORED_SUFFIXES = ("rotary_emb.inv_freq", "masked_bias", ".attn.bias")
# Integers and 8-bit floats mean nothing without their scales.
_WEIGHT_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def load_target(path: Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Target:
    """Load a target in `dtype` on `device`, ready for inference (no gradients)."""
    if path.is_file() and path.suffix == ".gguf":
        arch, tensors = read_gguf(path)
    else:
        arch = read_architecture(path)
        tensors = read_tensors(path)
    target = unfilled(lambda: Target(arch))
    fill_parameters(target, _decoder_names(tensors, arch), source=str(path), dtype=dtype)
    if arch.tied_embeddings:
        target.lm_head.weight = target.embed_tokens.weight
    target.head_dtype = dtype
    target.inv_freq = inverse_frequencies(arch.rope, arch.head_dim)
    return target.to(device).eval().requires_grad_(False)


def read_architecture(path: Path) -> Architecture:
    """Shape of a target from its config or metadata, without its weights."""
    if path.is_file() and path.suffix == ".gguf":
        return read_gguf_architecture(path)
    if path.is_dir():
        return architecture_from_hf(read_config(path))
    raise WeightsError(f"target {path} does not exist; give a Hugging Face model directory or a .gguf file")


def fill_parameters(module: nn.Module, tensors: dict[str, Tensor], *, source: str, dtype: torch.dtype) -> None:
    """Assign `tensors` to the parameters of `module`, in `dtype`.

    Raises WeightsError for tensors that are missing, left over, misshapen, quantised or not finite.
    """
    wanted = dict(module.named_parameters())
    missing = sorted(set(wanted) - set(tensors))
    if missing:
        raise WeightsError(f"{source} lacks {len(missing)} tensors, first {', '.join(missing[:3])}")
    extra = sorted(set(tensors) - set(wanted))
    if extra:
        raise WeightsError(f"{source} has {len(extra)} tensors that the model does not use, first {extra[0]}")
    for name, parameter in wanted.items():
        value = tensors[name]
        if value.shape != parameter.shape:
            raise WeightsError(
                f"{source}: {name} has shape {list(value.shape)}; the config asks for {list(parameter.shape)}"
            )
        if value.dtype not in _WEIGHT_DTYPES:
            raise UnsupportedModelError(
                f"{source}: {name} is stored as {str(value.dtype).removeprefix('torch.')}; "
                "allowed: float32, float16, bfloat16, float64; take the unquantised weights or a GGUF file"
            )
        if not all(math.isfinite(extreme) for extreme in torch.aminmax(value)):  # one pass; NaN is an extreme
            raise WeightsError(f"{source}: {name} holds NaN or infinite values; the file is damaged")
    module.load_state_dict({name: tensors[name].to(dtype) for name in wanted}, strict=False, assign=True)


def _decoder_names(tensors: dict[str, Tensor], arch: Architecture) -> dict[str, Tensor]:
    named = {
        name.removeprefix("model."): value for name, value in tensors.items() if not name.endswith(_IGNORED_SUFFIXES)
    }
    if arch.tied_embeddings:
        named.pop("lm_head.weight", None)
    return named

"""Reads and writes EAGLE-3 drafts in the layouts of EAGLE and SpecForge, speculators and NVIDIA.

Knows no targets and builds no modules that compute: a `DraftCheckpoint` is what a directory says, under this
runtime's names. Invariant: reading what was written gives bit-equal tensors, the same vocabulary mapping and an
equal config, in every format. V draft vocabulary, T target vocabulary.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from eagle3.errors import ConfigError, DraftMismatchError, WeightsError
from eagle3.models.checkpoint import read_config, read_tensors
from eagle3.models.draft import Draft
from eagle3.models.draft_config import DraftConfig
from eagle3.models.draft_config_read import detect_format, parse_draft_config
from eagle3.models.draft_config_write import spell_draft_config
from eagle3.models.draft_keys import DEFAULT_CONVENTION, DRAFT_FORMATS, DraftFormat, TapConvention
from eagle3.models.draft_vocabulary import members_of, offsets_of, target_ids
from eagle3.models.unfilled import unfilled

# Left over from training or determined by the config.
_IGNORED_TENSORS = ("rotary_emb.inv_freq", "verifier_norm.weight", "verifier_lm_head.weight")
# The draft layer: `midlayer.*` in EAGLE's layout, `layers.0.*` in speculators' and in recent NVIDIA exports.
_LAYER_PREFIXES = {"original": "midlayer.", "nvidia": "midlayer.", "speculators": "layers.0."}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)  # tensors have no truth value to compare by
class DraftCheckpoint:
    """A draft on disk or on its way there: config, tensors and vocabulary."""

    config: DraftConfig
    """Shape and flags, tap layers as inputs of layers."""
    tensors: dict[str, Tensor]
    """Parameters under the names of `Draft.state_dict()`, in the dtype of the file."""
    target_ids_V: Tensor
    """Target id of each draft id, int64."""
    format: DraftFormat = "original"
    """Format that it was read from."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Config keys without influence on the forward pass, for a lossless write (`max_position_embeddings`, ...)."""


def read_draft(path: Path, *, convention: TapConvention | None = None) -> DraftCheckpoint:
    """Read a draft directory; `convention` says how its tap ids count, None takes the format's default."""
    if not path.is_dir():
        raise WeightsError(f"draft {path} is not a directory; give a directory with config.json and weights")
    raw = read_config(path)
    tensors, offsets_V, members_T = split_tensors(read_tensors(path))
    draft_format = draft_format_of(raw, tensors, offsets_V, members_T)
    config, extra = parse_draft_config(raw, tensors, draft_format, convention or DEFAULT_CONVENTION[draft_format])
    return DraftCheckpoint(
        config=config,
        tensors=tensors,
        target_ids_V=target_ids(offsets_V, members_T, config.draft_vocab_size, config.vocab_size),
        format=draft_format,
        extra=extra,
    )


def draft_format_of(
    raw: Mapping[str, Any], tensors: Mapping[str, Tensor], offsets_V: Tensor | None, members_T: Tensor | None
) -> DraftFormat:
    """The format of a draft whose tensors `split_tensors` has taken apart."""
    mapping = {"d2t": offsets_V, "t2d": members_T}
    return detect_format(raw, {**tensors, **{name: value for name, value in mapping.items() if value is not None}})


def split_tensors(raw: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor | None, Tensor | None]:
    """Tensors under `Draft`'s names, then d2t and t2d or None; WeightsError when two names mean one tensor."""
    tensors: dict[str, Tensor] = {}
    for name, value in raw.items():
        if name.endswith(_IGNORED_TENSORS):
            continue
        ours = name.removeprefix("model.")
        if ours.startswith("layers.0."):
            ours = "midlayer." + ours.removeprefix("layers.0.")
        if ours in tensors:
            raise WeightsError(f"the draft stores {ours} twice, the second time as {name}; keep one")
        tensors[ours] = value
    return tensors, tensors.pop("d2t", None), tensors.pop("t2d", None)


def parameter_shapes(config: DraftConfig) -> dict[str, torch.Size]:
    """Shape of every parameter that a draft of this config has."""
    return {name: parameter.shape for name, parameter in unfilled(lambda: Draft(config)).named_parameters()}


def write_draft(
    path: Path,
    checkpoint: DraftCheckpoint,
    format: DraftFormat,
    *,
    convention: TapConvention | None = None,
    target_embedding: Tensor | None = None,
) -> None:
    """Write config.json and model.safetensors into `path`, each renamed into place, the config last.

    `convention` says how the written tap ids count, None takes the format's default. With `target_embedding`
    given, an embedding of its width in the checkpoint must be bit-equal to it, or DraftMismatchError (TorchSpec 38).
    """
    if format not in DRAFT_FORMATS:
        raise ConfigError(f"draft format {format!r} does not exist; allowed: {', '.join(DRAFT_FORMATS)}")
    config = checkpoint.config
    _check_complete(checkpoint, format, target_embedding)
    spelled = spell_draft_config(
        config,
        checkpoint.extra,
        format,
        convention or DEFAULT_CONVENTION[format],
        checkpoint.tensors["lm_head.weight"].dtype,
    )
    prefix = _LAYER_PREFIXES[format]
    named = {
        (prefix + name.removeprefix("midlayer.") if name.startswith("midlayer.") else name): value
        for name, value in checkpoint.tensors.items()
    }
    identity = config.draft_vocab_size == config.vocab_size and not bool(offsets_of(checkpoint.target_ids_V).any())
    if not identity:
        named["d2t"] = offsets_of(checkpoint.target_ids_V)
        if format != "nvidia":
            named["t2d"] = members_of(checkpoint.target_ids_V, config.vocab_size)
    # Copies: safetensors refuses views and tensors that share memory.
    stored = {name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in named.items()}
    path.mkdir(parents=True, exist_ok=True)
    _replace(path / "model.safetensors", lambda part: save_file(stored, part, metadata={"format": "pt"}))
    text = json.dumps(spelled, indent=2, sort_keys=True) + "\n"
    _replace(path / "config.json", lambda part: part.write_text(text, encoding="utf-8"))


def _check_complete(checkpoint: DraftCheckpoint, format: DraftFormat, target_embedding: Tensor | None) -> None:
    config, tensors = checkpoint.config, checkpoint.tensors
    target_ids(offsets_of(checkpoint.target_ids_V), None, config.draft_vocab_size, config.vocab_size)
    for name, shape in parameter_shapes(config).items():
        if name not in tensors or tensors[name].shape != shape:
            got = list(tensors[name].shape) if name in tensors else "nothing"
            raise WeightsError(f"cannot write a draft: {name} must have shape {list(shape)}; got {got}")
    left_over = sorted(set(tensors) - set(parameter_shapes(config)))
    if left_over:
        raise WeightsError(f"cannot write a draft: its config does not use {', '.join(left_over[:3])}")
    embedding = tensors.get("embed_tokens.weight")
    if embedding is None:
        return
    if format == "nvidia":
        raise ConfigError("the nvidia format holds no embedding and this draft has its own; write another format")
    if target_embedding is None or target_embedding.shape != embedding.shape:
        return  # a draft of another width needs its own embedding
    if not torch.equal(embedding.cpu(), target_embedding.detach().cpu()):
        raise DraftMismatchError(
            "cannot write a draft whose embed_tokens.weight differs from the target's embedding; leave it out "
            "(own_embedding=False), so that the target's is shared"
        )


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(part)
        part.chmod(0o644)  # safetensors writes 0600; a server under another user must read the draft
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

"""Directories that vLLM and SGLang can load, made from the target and the draft that a config names.

A GGUF target is dequantised and written as a Hugging Face directory once; a draft of any published layout is
written in the one that the engine reads with the meaning that it has here (tap layers above all). Invariant: what
the other engine loads computes the same numbers as the native engine.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.embedded import EMBEDDED
from eagle3.models.architecture import Architecture
from eagle3.models.draft_formats import read_draft, write_draft
from eagle3.models.draft_keys import DraftFormat
from eagle3.models.embedded import draft_path, target_path
from eagle3.models.target_export import export_target
from eagle3.models.target_loader import load_target, read_architecture
from eagle3.models.tokenizer import load_tokenizer

_EMBEDDED_NAME = "SmolLM2-135M-Instruct"


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamModels:
    """What another engine loads, and what there is to know about it."""

    target: Path
    """A Hugging Face directory."""
    draft: Path | None
    target_name: str
    context_tokens: int
    """Prompt and answer together, within the limits of the config."""
    vocab_size: int
    ending_ids: frozenset[int]
    """Tokens that end a text, as the native engine has them."""
    bytes_per_token: int
    """What one token's keys and values take, in the target and in the draft."""


def prepare_models(config: DeploymentConfig, folder: Path, *, draft_format: DraftFormat) -> UpstreamModels:
    """Write into `folder` what is not there yet; takes seconds to minutes, so call it in a thread."""
    source = target_path(config.target)
    arch = read_architecture(source)
    tokenizer = load_tokenizer(source)
    target = source
    if source.is_file():
        target = folder / f"target-{_fingerprint(source)}-{config.dtype}"
        if not (target / "config.json").is_file():
            export_target(load_target(source, dtype=getattr(torch, config.dtype)), tokenizer, target)
    draft = None if config.draft_in_use is None else _write_draft(config, arch, folder, draft_format)
    return UpstreamModels(
        target=target,
        draft=draft,
        target_name=_EMBEDDED_NAME if config.target == EMBEDDED else source.resolve().stem,
        context_tokens=context_tokens(config, arch),
        vocab_size=arch.vocab_size,
        ending_ids=tokenizer.ending_ids,
        bytes_per_token=_bytes_per_token(arch, config),
    )


def context_tokens(config: DeploymentConfig, arch: Architecture) -> int:
    """The target's context, or less where the config's limits never let a request have that much."""
    if config.limits.max_prompt_tokens is None:
        return arch.max_position
    return min(arch.max_position, config.limits.max_prompt_tokens + config.limits.max_output_tokens)


def _write_draft(config: DeploymentConfig, arch: Architecture, folder: Path, draft_format: DraftFormat) -> Path:
    assert config.draft_in_use is not None, "only called with a draft"
    source = draft_path(config.draft_in_use)
    checkpoint = read_draft(source)
    # Engines size a table by the draft's maximum and crash beyond it; a draft itself has none.
    stated = checkpoint.extra.get("max_position_embeddings", 0)
    longest = max(arch.max_position, stated if isinstance(stated, int) else 0)
    checkpoint = replace(checkpoint, extra={**checkpoint.extra, "max_position_embeddings": longest})
    path = folder / f"draft-{_fingerprint(*sorted(source.iterdir()))}-{draft_format}"
    if not (path / "config.json").is_file():
        write_draft(path, checkpoint, draft_format)
    return path


def _fingerprint(*files: Path) -> str:
    """Changes when a file does; nothing is read for it."""
    state = [(str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    return hashlib.blake2b(repr(state).encode(), digest_size=8).hexdigest()


def _bytes_per_token(arch: Architecture, config: DeploymentConfig) -> int:
    layers = arch.num_layers + (config.draft_in_use is not None)
    return 2 * layers * arch.num_kv_heads * arch.head_dim * int(getattr(torch, config.dtype).itemsize)

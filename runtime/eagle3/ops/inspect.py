"""Describes a draft directory and converts it to another format, for `eagle3 draft inspect` and `convert`.

Knows no command line. Invariant: a conversion changes spelling only; tensors stay bit-equal, and an existing
non-empty destination is never touched.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from eagle3.errors import InvalidInputError
from eagle3.models.draft_formats import DraftCheckpoint, read_draft, write_draft
from eagle3.models.draft_keys import DraftFormat, TapConvention


def describe(path: Path, *, convention: TapConvention | None = None) -> dict[str, Any]:
    """A JSON-able description: format, config, extra keys, tensors, parameters, size in bytes, mapping."""
    checkpoint = read_draft(path, convention=convention)
    tensors = checkpoint.tensors
    return {
        "path": str(path),
        "format": checkpoint.format,
        "config": _jsonable(asdict(checkpoint.config)),
        "ignored_keys": dict(sorted(checkpoint.extra.items())),
        "tensors": {
            name: {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
            for name, value in sorted(tensors.items())
        },
        "parameters": sum(value.numel() for value in tensors.values()),
        "bytes": sum(value.numel() * value.element_size() for value in tensors.values()),
        "mapping": _mapping(checkpoint),
    }


def convert(
    source: Path,
    destination: Path,
    format: DraftFormat,
    *,
    convention: TapConvention | None = None,
    target_embedding: Tensor | None = None,
) -> DraftCheckpoint:
    """Read `source` (tap ids by `convention`) and write it to `destination` in `format`; returns what was read.

    `target_embedding` is passed on to `write_draft`. Raises InvalidInputError when `destination` holds anything.
    """
    if destination.exists() and (not destination.is_dir() or any(destination.iterdir())):
        raise InvalidInputError(f"{destination} exists and is not empty; give a new or an empty directory")
    checkpoint = read_draft(source, convention=convention)
    write_draft(destination, checkpoint, format, target_embedding=target_embedding)
    return checkpoint


def _mapping(checkpoint: DraftCheckpoint) -> dict[str, Any]:
    ids_V = checkpoint.target_ids_V
    return {
        "draft_vocab_size": len(ids_V),
        "vocab_size": checkpoint.config.vocab_size,
        "reduced": len(ids_V) < checkpoint.config.vocab_size,
        "sorted": bool((ids_V[1:] > ids_V[:-1]).all()),
        "lowest_target_id": int(ids_V.min()),
        "highest_target_id": int(ids_V.max()),
    }


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value

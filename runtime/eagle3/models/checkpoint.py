"""Reads the tensors of a Hugging Face checkpoint directory; knows file layouts, no models.

Layouts: `model.safetensors`, sharded safetensors with `model.safetensors.index.json`, the same two for
`pytorch_model.bin` (read with weights_only, so a pickle in it cannot run code). Every failure is a
WeightsError that names the file.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from eagle3.errors import ConfigError, WeightsError

_SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")


def read_config(directory: Path) -> dict[str, Any]:
    """Parse `config.json`; raise ConfigError when it is absent or not a JSON object."""
    path = directory / "config.json"
    if not path.is_file():
        raise ConfigError(f"{directory} holds no config.json; give a Hugging Face model directory or a .gguf file")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} must hold a JSON object; got {type(config).__name__}")
    return config


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """Every tensor of the checkpoint on the CPU, in the dtype of the file."""
    for name in _SINGLE_FILES:
        if (directory / name).is_file():
            return _read_file(directory / name)
        if (directory / f"{name}.index.json").is_file():
            return _read_shards(directory, directory / f"{name}.index.json")
    raise WeightsError(
        f"{directory} holds no weights; expected model.safetensors, pytorch_model.bin or one of their .index.json files"
    )


def _read_shards(directory: Path, index: Path) -> dict[str, Tensor]:
    try:
        weight_map: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise WeightsError(f"{index} is not a weight index (no readable weight_map): {error!r}") from error
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise WeightsError(f"{index} is not a weight index: weight_map must map tensor names to file names")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(weight_map.values())):
        path = directory / shard
        if path.parent.resolve() != directory.resolve():
            raise WeightsError(f"{index} names a shard outside its directory: {shard!r}")
        if not path.is_file():
            raise WeightsError(f"{index} names {shard}, which is missing; download the checkpoint again")
        tensors |= _read_file(path)
    missing = sorted(set(weight_map) - set(tensors))
    if missing:
        raise WeightsError(f"{index} lists tensors that no shard holds: {', '.join(missing[:5])}")
    return tensors


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise WeightsError(f"{path} is truncated or not a weights file: {error}") from error
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise WeightsError(f"{path} must hold a mapping of names to tensors")
    return loaded

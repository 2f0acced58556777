"""A damaged checkpoint directory is one clear error that names the file; nothing is read outside it."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from builders import TINY_CONFIG, tiny_tensors, write_checkpoint, write_sharded_checkpoint
from eagle3.errors import ConfigError, WeightsError
from eagle3.models.checkpoint import read_config, read_tensors


def edit_index(directory: Path, change: Any) -> None:
    """Let `change` alter the weight map in place."""
    path = directory / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index["weight_map"])
    path.write_text(json.dumps(index))


def test_shards_hold_what_one_file_holds(tmp_path: Path) -> None:
    """The layouts are equivalent, tensor by tensor."""
    single = read_tensors(write_checkpoint(tmp_path / "single"))
    sharded = read_tensors(write_sharded_checkpoint(tmp_path / "sharded"))
    assert single.keys() == sharded.keys()
    assert all(torch.equal(single[name], sharded[name]) for name in single)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"vocab_size": 40,', "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b"\xff\xfe{}", "is not valid JSON"),
        (b"[1, 2]", "must hold a JSON object; got list"),
    ],
)
def test_bad_config(text: bytes, message: str, tmp_path: Path) -> None:
    """A config.json that is no JSON object says so, with its path."""
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(ConfigError, match=f"config.json {message}"):
        read_config(tmp_path)


def test_no_config(tmp_path: Path) -> None:
    """A directory without config.json is not a model directory."""
    with pytest.raises(ConfigError, match=r"holds no config\.json; give a Hugging Face model directory"):
        read_config(tmp_path)


def test_no_weights(tmp_path: Path) -> None:
    """A directory without weights lists what was expected."""
    with pytest.raises(WeightsError, match=r"holds no weights; expected model\.safetensors, pytorch_model\.bin"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, 0.99])
def test_truncated_safetensors(kept: float, tmp_path: Path) -> None:
    """Cut in the header, in the data or to nothing: one WeightsError that names the file."""
    path = write_checkpoint(tmp_path) / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
    with pytest.raises(WeightsError, match=r"model\.safetensors is truncated or not a weights file"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.99])
def test_truncated_bin(kept: float, tmp_path: Path) -> None:
    """The same for pytorch_model.bin."""
    path = tmp_path / "pytorch_model.bin"
    torch.save(tiny_tensors(TINY_CONFIG), path)
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
    with pytest.raises(WeightsError, match=r"pytorch_model\.bin is truncated or not a weights file"):
        read_tensors(tmp_path)


class Payload:
    """Makes a directory when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_pickle_does_not_run(zipped: bool, tmp_path: Path) -> None:
    """A pickle that would run code is refused before it does."""
    made = tmp_path / "made"
    path = tmp_path / "pytorch_model.bin"
    if zipped:
        torch.save({"weight": Payload(made)}, path)
    else:
        path.write_bytes(pickle.dumps({"weight": Payload(made)}, protocol=2))
    with pytest.raises(WeightsError, match=r"pytorch_model\.bin"):
        read_tensors(tmp_path)
    assert not made.exists()


@pytest.mark.parametrize("content", [[torch.ones(1)], {"step": 3}])
def test_bin_that_holds_something_else(content: Any, tmp_path: Path) -> None:
    """A trainer's state is not a state dict."""
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="must hold a mapping of names to tensors"):
        read_tensors(tmp_path)


def test_missing_shard(tmp_path: Path) -> None:
    """A shard that the index names and the directory lacks is named."""
    shard = "model-00002-of-00002.safetensors"
    (write_sharded_checkpoint(tmp_path) / shard).unlink()
    with pytest.raises(WeightsError, match=f"names {shard}, which is missing; download the checkpoint again"):
        read_tensors(tmp_path)


def test_index_lists_a_tensor_that_no_shard_holds(tmp_path: Path) -> None:
    """An index may not promise more than the shards hold."""
    write_sharded_checkpoint(tmp_path)
    edit_index(tmp_path, lambda weight_map: weight_map.update({"model.ghost": "model-00001-of-00002.safetensors"}))
    with pytest.raises(WeightsError, match=r"lists tensors that no shard holds: model\.ghost"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("relative", [True, False])
def test_shard_path_cannot_escape(relative: bool, tmp_path: Path) -> None:
    """An index names files beside it, never elsewhere, even where such a file is valid."""
    outside = write_checkpoint(tmp_path / "outside") / "model.safetensors"
    inside = write_sharded_checkpoint(tmp_path / "inside")
    shard = "../outside/model.safetensors" if relative else str(outside)
    edit_index(inside, lambda weight_map: weight_map.update({"lm_head.weight": shard}))
    with pytest.raises(WeightsError, match="names a shard outside its directory"):
        read_tensors(inside)


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"weight_map": ["a"]}', '{"weight_map": {"a": 1}}', '{"weight_map": null}']
)
def test_bad_index(text: str, tmp_path: Path) -> None:
    """An index without a map of names to files says that it is none."""
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(WeightsError, match=r"model\.safetensors\.index\.json is not a weight index"):
        read_tensors(tmp_path)

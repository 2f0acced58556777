"""Describing and converting a draft directory."""

from __future__ import annotations

import json

import pytest
import torch

from builders import tiny_draft_checkpoint, tiny_draft_config
from eagle3.errors import DraftMismatchError, InvalidInputError
from eagle3.models.draft_formats import read_draft, write_draft
from eagle3.ops.inspect import convert, describe


def test_describe_is_json_and_counts(tmp_path):
    """The description survives JSON and counts parameters and bytes of the tensors as stored."""
    checkpoint = tiny_draft_checkpoint(dtype=torch.bfloat16)
    write_draft(tmp_path, checkpoint, "nvidia")
    described = json.loads(json.dumps(describe(tmp_path)))
    parameters = sum(value.numel() for value in checkpoint.tensors.values())
    assert described["format"] == "nvidia"
    assert described["config"]["tap_inputs"] == [2, 4, 5]
    assert described["tensors"]["fc.weight"] == {"shape": [16, 48], "dtype": "bfloat16"}
    assert (described["parameters"], described["bytes"]) == (parameters, 2 * parameters)
    assert described["mapping"]["draft_vocab_size"] == 24
    assert described["mapping"]["reduced"]
    assert not described["mapping"]["sorted"]


@pytest.mark.parametrize("format", ["original", "speculators", "nvidia"])
def test_convert_changes_spelling_only(tmp_path, format):
    """A converted draft has the same config, mapping and bit-equal tensors."""
    checkpoint = tiny_draft_checkpoint(tiny_draft_config(fc_norm=True, feedback_normed=True))
    write_draft(tmp_path / "a", checkpoint, "original")
    convert(tmp_path / "a", tmp_path / "b", format)
    after = read_draft(tmp_path / "b")
    assert (after.format, after.config) == (format, checkpoint.config)
    assert torch.equal(after.target_ids_V, checkpoint.target_ids_V)
    assert all(torch.equal(value, after.tensors[name]) for name, value in checkpoint.tensors.items())


def test_convert_takes_the_right_convention(tmp_path):
    """A draft whose ids counted outputs is healed by naming the convention of the source."""
    write_draft(tmp_path / "a", tiny_draft_checkpoint(tiny_draft_config(tap_inputs=(1, 3, 4))), "original")
    convert(tmp_path / "a", tmp_path / "b", "original", convention="output")
    assert read_draft(tmp_path / "b").config.tap_inputs == (2, 4, 5)


def test_convert_never_overwrites(tmp_path):
    """A destination that holds anything is refused and stays as it was; an empty directory is fine."""
    write_draft(tmp_path / "a", tiny_draft_checkpoint(), "original")
    (tmp_path / "b").mkdir()
    convert(tmp_path / "a", tmp_path / "b", "speculators")
    before = (tmp_path / "b" / "config.json").read_bytes()
    with pytest.raises(InvalidInputError, match="not empty"):
        convert(tmp_path / "a", tmp_path / "b", "original")
    with pytest.raises(InvalidInputError, match="not empty"):
        convert(tmp_path / "a", tmp_path / "a" / "config.json", "original")
    assert (tmp_path / "b" / "config.json").read_bytes() == before


def test_convert_checks_the_embedding(tmp_path):
    """R5: with the target's embedding given, another one in the draft is refused."""
    checkpoint = tiny_draft_checkpoint(tiny_draft_config(own_embedding=True))
    write_draft(tmp_path / "a", checkpoint, "original")
    with pytest.raises(DraftMismatchError, match="embedding"):
        convert(tmp_path / "a", tmp_path / "b", "original", target_embedding=torch.zeros(40, 16))

"""What other engines load is what the native engine loads, in a layout that they read the same way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders import BYTE_VOCAB, tiny_draft_checkpoint, tiny_draft_config, write_byte_model
from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.engine.upstream_models import prepare_models
from eagle3.models.draft_formats import read_draft, write_draft

CONTEXT = 1024
"""Of `write_byte_model`."""


def deployment(target: Path, draft: Path | None, **values: object) -> DeploymentConfig:
    return parse_config({"target": str(target), "draft": None if draft is None else str(draft), **values}, source="t")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_byte_model(tmp_path / "model")


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    config = tiny_draft_config(vocab_size=BYTE_VOCAB, draft_vocab_size=24, tap_inputs=(1, 3, 5))
    checkpoint = replace(tiny_draft_checkpoint(config), extra={"max_position_embeddings": 16})
    write_draft(tmp_path / "draft", checkpoint, "original")
    return tmp_path / "draft"


def test_a_directory_is_used_where_it_lies(target: Path, draft: Path, tmp_path: Path) -> None:
    """A Hugging Face target is not copied; facts come from its config, the context from the limits."""
    models = prepare_models(deployment(target, None), tmp_path / "out", draft_format="original")
    assert models.target == target
    assert models.draft is None
    assert models.context_tokens == CONTEXT
    assert models.vocab_size == BYTE_VOCAB
    limited = deployment(target, None, limits={"max_prompt_tokens": 20, "max_output_tokens": 12})
    assert prepare_models(limited, tmp_path / "out", draft_format="original").context_tokens == 32


@pytest.mark.parametrize("draft_format", ["original", "nvidia"])
def test_a_draft_keeps_its_meaning(target: Path, draft: Path, tmp_path: Path, draft_format: str) -> None:
    """The same config and tensors are read back; the maximum position covers the target's context (R10)."""
    models = prepare_models(deployment(target, draft), tmp_path / "out", draft_format=draft_format)
    assert models.draft is not None
    before, after = read_draft(draft), read_draft(models.draft)
    assert after.config == before.config
    assert after.tensors.keys() == before.tensors.keys()
    assert all(bool((after.tensors[name] == value).all()) for name, value in before.tensors.items())
    assert after.target_ids_V.tolist() == before.target_ids_V.tolist()
    raw = json.loads((models.draft / "config.json").read_text())
    assert raw["max_position_embeddings"] == CONTEXT


def test_tap_layers_are_spelled_as_each_engine_reads_them(target: Path, draft: Path, tmp_path: Path) -> None:
    """vLLM: inputs of layers at the top level. SGLang: outputs of layers in `eagle_config` (R6)."""
    config = deployment(target, draft)
    for_vllm = prepare_models(config, tmp_path / "out", draft_format="original").draft
    for_sglang = prepare_models(config, tmp_path / "out", draft_format="nvidia").draft
    assert for_vllm is not None
    assert for_sglang is not None
    assert json.loads((for_vllm / "config.json").read_text())["eagle_aux_hidden_state_layer_ids"] == [1, 3, 5]
    inner = json.loads((for_sglang / "config.json").read_text())["eagle_config"]
    assert inner["eagle_aux_hidden_state_layer_ids"] == [0, 2, 4]


def test_what_was_written_is_found_again_until_the_source_changes(target: Path, draft: Path, tmp_path: Path) -> None:
    """A second start writes nothing; a draft of the same name with other content is written anew."""
    config = deployment(target, draft)
    first = prepare_models(config, tmp_path / "out", draft_format="original").draft
    assert first is not None
    written = (first / "model.safetensors").stat().st_mtime_ns
    again = prepare_models(config, tmp_path / "out", draft_format="original").draft
    assert again == first
    assert (first / "model.safetensors").stat().st_mtime_ns == written
    (draft / "config.json").write_text((draft / "config.json").read_text() + "\n")
    assert prepare_models(config, tmp_path / "out", draft_format="original").draft != first

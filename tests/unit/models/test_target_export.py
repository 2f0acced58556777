"""An exported target is the same model: bit-equal weights, equal logits, the same ends of text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from builders import BYTE_VOCAB, TINY_CONFIG, tiny_tensors, write_byte_tokenizer, write_checkpoint, write_gguf
from eagle3.errors import WeightsError
from eagle3.models.attention import causal_attend
from eagle3.models.target import Target
from eagle3.models.target_export import export_target
from eagle3.models.target_loader import load_target
from eagle3.models.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return load_tokenizer(write_byte_tokenizer(tmp_path / "tokenizer"))


def logits_of(target: Target) -> torch.Tensor:
    ids = torch.tensor([[1, 5, 3, 2]])
    return target.logits(target(ids, torch.arange(4)[None], causal_attend).hidden_BSH)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"])
def test_what_is_read_back_is_the_same(tmp_path: Path, tokenizer: Tokenizer, family: str, tied: bool) -> None:
    """Architecture, every weight and the logits, for every family and both kinds of head."""
    config = TINY_CONFIG | {"architectures": [family], "tie_word_embeddings": tied, "vocab_size": BYTE_VOCAB}
    target = load_target(write_checkpoint(tmp_path / "in", config))
    export_target(target, tokenizer, tmp_path / "out")
    again = load_target(tmp_path / "out")
    assert again.arch == target.arch
    assert again.state_dict().keys() == target.state_dict().keys()
    assert all(torch.equal(again.state_dict()[name], value) for name, value in target.state_dict().items())
    assert torch.equal(logits_of(again), logits_of(target))
    read = load_tokenizer(tmp_path / "out")
    assert read.ending_ids == tokenizer.ending_ids
    assert read.encode_chat([{"role": "user", "content": "hi"}]) == tokenizer.encode_chat(
        [{"role": "user", "content": "hi"}]
    )


def test_transformers_reads_it_too(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """A GGUF target, written out, gives our logits in Hugging Face's implementation."""
    from transformers import AutoModelForCausalLM

    config = TINY_CONFIG | {"vocab_size": BYTE_VOCAB}
    target = load_target(write_gguf(tmp_path / "tiny.gguf", "llama", config, tiny_tensors(config)))
    export_target(target, tokenizer, tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(str(tmp_path / "out"), dtype=torch.float32)
    theirs = model(torch.tensor([[1, 5, 3, 2]])).logits
    torch.testing.assert_close(theirs, logits_of(target), atol=1e-5, rtol=1e-5)
    assert model.generation_config.eos_token_id == sorted(tokenizer.ending_ids)


def test_the_config_comes_last(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Where writing fails, no config.json is left that would make the folder look whole; the error says the room."""
    target = load_target(write_checkpoint(tmp_path / "in"))
    out = tmp_path / "out"
    (out / "model.safetensors").mkdir(parents=True)
    with pytest.raises(WeightsError, match=r"cannot write the exported target to .*room for 1 MiB"):
        export_target(target, tokenizer, out)
    assert not (out / "config.json").exists()


def test_dtype_is_written(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """A bfloat16 target is written as such."""
    target = load_target(write_checkpoint(tmp_path / "in"), dtype=torch.bfloat16)
    export_target(target, tokenizer, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == "bfloat16"
    assert load_target(tmp_path / "out", dtype=torch.bfloat16).norm.weight.dtype is torch.bfloat16


def test_what_has_no_spelling_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Biases on some attention projections only: Hugging Face has one flag for all, so nothing is dropped silently."""
    target = load_target(write_checkpoint(tmp_path / "in"))
    target.arch = replace(target.arch, qkv_bias=True)
    with pytest.raises(WeightsError, match="biases on only some attention projections"):
        export_target(target, tokenizer, tmp_path / "out")

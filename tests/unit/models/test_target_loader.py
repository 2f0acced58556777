"""A target that loads is complete and finite; whatever does not fit is refused by the tensor's name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from builders import TINY_CONFIG, tiny_tensors, write_checkpoint, write_gguf
from eagle3.errors import ConfigError, UnsupportedModelError, WeightsError
from eagle3.models.attention import causal_attend
from eagle3.models.target_loader import load_target

QUERY = "model.layers.3.self_attn.q_proj.weight"


def test_loaded_target_is_ready_for_inference(tmp_path: Path) -> None:
    """No meta tensors, no gradients, evaluation mode, finite logits."""
    target = load_target(write_checkpoint(tmp_path))
    assert not target.training
    assert all(parameter.device.type == "cpu" and not parameter.requires_grad for parameter in target.parameters())
    assert target.inv_freq.device.type == "cpu"
    output = target(torch.tensor([[1, 2, 3]]), torch.arange(3)[None], causal_attend)
    assert target.logits(output.hidden_BSH).isfinite().all()


def test_dtype(tmp_path: Path) -> None:
    """`dtype` holds for every weight; the rotary frequencies stay float32."""
    target = load_target(write_checkpoint(tmp_path), dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in target.parameters()} == {torch.bfloat16}
    assert target.inv_freq.dtype == torch.float32


def test_bfloat16_target_gives_logits(tmp_path: Path) -> None:
    """A bfloat16 target runs to its logits."""
    target = load_target(write_checkpoint(tmp_path), dtype=torch.bfloat16)
    output = target(torch.tensor([[1, 2, 3]]), torch.arange(3)[None], causal_attend)
    assert target.logits(output.hidden_BSH).isfinite().all()


def test_tied_head_is_the_embedding(tmp_path: Path) -> None:
    """With tied embeddings the head shares memory, and a copy of it in the file is no left-over."""
    config = TINY_CONFIG | {"tie_word_embeddings": True}
    tensors = tiny_tensors(config)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    target = load_target(write_checkpoint(tmp_path, config, tensors))
    assert target.lm_head.weight is target.embed_tokens.weight


def test_no_such_path(tmp_path: Path) -> None:
    """A path that is neither a directory nor a GGUF file says what to give."""
    with pytest.raises(WeightsError, match=r"does not exist; give a Hugging Face model directory or a \.gguf file"):
        load_target(tmp_path / "nowhere")


def test_missing_tensor(tmp_path: Path) -> None:
    """A parameter that no file fills is named."""
    tensors = tiny_tensors(TINY_CONFIG)
    del tensors[QUERY]
    with pytest.raises(WeightsError, match=r"lacks 1 tensors, first layers\.3\.self_attn\.q_proj\.weight"):
        load_target(write_checkpoint(tmp_path, tensors=tensors))


def test_missing_head_of_an_untied_target(tmp_path: Path) -> None:
    """Without tied embeddings a missing head is an error, never the embedding."""
    tensors = tiny_tensors(TINY_CONFIG)
    del tensors["lm_head.weight"]
    with pytest.raises(WeightsError, match=r"lacks 1 tensors, first lm_head\.weight"):
        load_target(write_checkpoint(tmp_path, tensors=tensors))


@pytest.mark.parametrize(
    "name", ["model.layers.6.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.bias", "model.ghost"]
)
def test_left_over_tensor(name: str, tmp_path: Path) -> None:
    """A tensor that the config does not ask for (a layer too many, a bias, a stranger) is an error."""
    tensors = tiny_tensors(TINY_CONFIG) | {name: torch.zeros(16)}
    with pytest.raises(WeightsError, match=f"has 1 tensors that the model does not use, first {name[6:]}"):
        load_target(write_checkpoint(tmp_path, tensors=tensors))


def test_misshapen_tensor(tmp_path: Path) -> None:
    """A shape that the config does not ask for is told with both shapes."""
    tensors = tiny_tensors(TINY_CONFIG) | {QUERY: torch.zeros(8, 16)}
    with pytest.raises(WeightsError, match=r"q_proj\.weight has shape \[8, 16\]; the config asks for \[16, 16\]"):
        load_target(write_checkpoint(tmp_path, tensors=tensors))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers(value: float, tmp_path: Path) -> None:
    """One NaN or infinity anywhere refuses the file."""
    tensors = tiny_tensors(TINY_CONFIG)
    tensors[QUERY][2, 5] = value
    with pytest.raises(WeightsError, match=r"layers\.3\.self_attn\.q_proj\.weight holds NaN or infinite values"):
        load_target(write_checkpoint(tmp_path, tensors=tensors))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_quantised_weights_without_their_scales(dtype: torch.dtype, tmp_path: Path) -> None:
    """Integers or 8-bit floats in a matrix's place are not cast to what they do not mean."""
    tensors = tiny_tensors(TINY_CONFIG) | {QUERY: torch.ones(16, 16).to(dtype)}
    with pytest.raises(UnsupportedModelError, match=r"q_proj\.weight is stored as .*; allowed: float32"):
        load_target(write_checkpoint(tmp_path, tensors=tensors))


@pytest.mark.parametrize("tap", [-1, 7])
def test_tap_out_of_range(tap: int, tmp_path: Path) -> None:
    """Taps are 0 to n for n layers; any other says so and changes nothing."""
    target = load_target(write_checkpoint(tmp_path))
    target.set_taps((0, 6))
    with pytest.raises(ConfigError, match=f"tap layer {tap} does not exist in a target of 6 layers"):
        target.set_taps((1, tap))
    assert target.tap_inputs == (0, 6)


@pytest.mark.parametrize("kept", [0, 3, 20, 300, 1500, 0.5, 0.99])
def test_truncated_gguf(kept: float, tmp_path: Path) -> None:
    """Cut in the magic, the metadata, the tensor table or the data: one WeightsError that names the file."""
    path = write_gguf(tmp_path / "m.gguf", "llama", TINY_CONFIG, tiny_tensors(TINY_CONFIG))
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
    with pytest.raises(WeightsError, match=r"m\.gguf is truncated or not a GGUF file"):
        load_target(path)


def test_gguf_that_is_something_else(tmp_path: Path) -> None:
    """A file that only has the name is refused."""
    path = tmp_path / "m.gguf"
    path.write_bytes(b"<!doctype html>" * 100)
    with pytest.raises(WeightsError, match=r"m\.gguf is truncated or not a GGUF file"):
        load_target(path)


def test_gguf_of_another_architecture(tmp_path: Path) -> None:
    """The architecture is checked before any tensor."""
    path = write_gguf(tmp_path / "m.gguf", "gemma3", TINY_CONFIG, tiny_tensors(TINY_CONFIG))
    with pytest.raises(UnsupportedModelError, match="GGUF architecture 'gemma3' is not supported"):
        load_target(path)


def test_gguf_with_an_unknown_tensor(tmp_path: Path) -> None:
    """Experts and the like are refused by the tensor's name."""
    tensors = tiny_tensors(TINY_CONFIG) | {"model.layers.0.mlp.experts.weight": torch.ones(16)}
    path = write_gguf(tmp_path / "m.gguf", "llama", TINY_CONFIG, tensors)
    with pytest.raises(WeightsError, match=r"tensor 'blk\.0\.ffn_gate_exps\.weight' belongs to no supported"):
        load_target(path)


def test_gguf_with_nan(tmp_path: Path) -> None:
    """The checks of values hold for GGUF too."""
    tensors = tiny_tensors(TINY_CONFIG)
    tensors[QUERY][2, 5] = float("nan")
    path = write_gguf(tmp_path / "m.gguf", "llama", TINY_CONFIG, tensors)
    with pytest.raises(WeightsError, match=r"layers\.3\.self_attn\.q_proj\.weight holds NaN"):
        load_target(path)


def test_gguf_without_embedding(tmp_path: Path) -> None:
    """A GGUF file of something that is no decoder (a projector, an adapter) is refused."""
    tensors = {"model.norm.weight": torch.ones(16)}
    path = write_gguf(tmp_path / "m.gguf", "llama", TINY_CONFIG, tensors)
    with pytest.raises(WeightsError, match=r"has no token_embd\.weight"):
        load_target(path)


@pytest.mark.parametrize(("letter", "heads"), [("q", 4), ("k", 2)])
def test_gguf_rows_that_are_not_the_heads(letter: str, heads: int, tmp_path: Path) -> None:
    """Query and key rows are counted before their permutation is undone."""
    tensors = tiny_tensors(TINY_CONFIG)
    name = f"model.layers.3.self_attn.{letter}_proj.weight"
    assert tensors[name].shape[0] == heads * 4
    broken = tensors | {name: torch.zeros(heads * 6, 16)}
    path = write_gguf(tmp_path / "m.gguf", "llama", TINY_CONFIG, broken)
    with pytest.raises(
        WeightsError, match=rf"blk\.3\.attn_{letter}\.weight has {heads * 6} rows; .* {heads} heads of 4"
    ):
        load_target(path)

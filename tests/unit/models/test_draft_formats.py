"""Formats of EAGLE-3 drafts: what is read, what is refused, and that writing loses nothing."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from builders import edit_draft_json, edit_draft_tensors, tiny_draft_checkpoint, tiny_draft_config
from eagle3.errors import ConfigError, DraftMismatchError, UnsupportedModelError, WeightsError
from eagle3.models.architecture import Llama3Scaling, Rope
from eagle3.models.draft_config_read import detect_format, parse_draft_config
from eagle3.models.draft_formats import read_draft, write_draft
from eagle3.models.draft_keys import DEFAULT_CONVENTION, DRAFT_FORMATS

ROPES = (
    Rope(),
    Rope(theta=500000.0, linear_factor=2.0),
    Rope(llama3=Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192)),
)


def written(path: Path, checkpoint=None, format="original"):
    """A tiny draft on disk."""
    write_draft(path, tiny_draft_checkpoint() if checkpoint is None else checkpoint, format)
    return path


def same(left, right):
    """Assert bit-equal tensors, equal config and mapping."""
    assert left.config == right.config
    assert torch.equal(left.target_ids_V, right.target_ids_V)
    assert set(left.tensors) == set(right.tensors)
    for name, value in left.tensors.items():
        assert value.dtype == right.tensors[name].dtype
        assert torch.equal(value, right.tensors[name]), name


@st.composite
def checkpoints(draw):
    """Drafts of every flag, with and without tap ids and a reduced vocabulary."""
    norms = draw(st.sampled_from([{}, {"fc_norm": True}, {"norm_before_fc": True}]))
    taps = draw(st.none() | st.lists(st.integers(1, 8), min_size=1, max_size=4).map(tuple))
    config = tiny_draft_config(
        **norms,
        norm_before_residual=draw(st.booleans()),
        feedback_normed=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
        draft_vocab_size=draw(st.sampled_from([1, 24, 40])),
        target_hidden_size=draw(st.sampled_from([16, 20])),
        rope=draw(st.sampled_from(ROPES)),
        tap_inputs=taps,
        num_taps=3 if taps is None else len(taps),
    )
    return tiny_draft_checkpoint(config, seed=draw(st.integers(0, 5)), dtype=draw(st.sampled_from(DTYPES)))


DTYPES = (torch.float32, torch.bfloat16)


@settings(max_examples=15, deadline=None)
@given(checkpoint=checkpoints(), order=st.permutations(DRAFT_FORMATS))
def test_round_trips_through_all_formats_lose_nothing(checkpoint, order):
    """Written and read in every format, in any order, tensors are bit-equal and config and mapping equal."""
    current = checkpoint
    with tempfile.TemporaryDirectory() as directory:
        for step, format in enumerate((*order, order[0])):
            write_draft(Path(directory) / str(step), current, format)
            current = read_draft(Path(directory) / str(step))
            assert current.format == format
            same(current, checkpoint)


@pytest.mark.parametrize("format", ["original", "speculators"])
def test_own_embedding_travels_bit_equal(tmp_path, format):
    """An embedding in the files is read as the draft's own and written back bit-equal; nvidia's layout has none."""
    checkpoint = tiny_draft_checkpoint(tiny_draft_config(own_embedding=True))
    same(read_draft(written(tmp_path / "a", checkpoint, format)), checkpoint)
    with pytest.raises(ConfigError, match="nvidia format holds no embedding"):
        write_draft(tmp_path / "b", checkpoint, "nvidia")


def test_exported_embedding_is_absent_or_the_targets(tmp_path):
    """R5: a draft that shares the target's embedding exports none; one that differs from the target's is refused."""
    assert "embed_tokens.weight" not in load_file(written(tmp_path / "shared") / "model.safetensors")
    checkpoint = tiny_draft_checkpoint(tiny_draft_config(own_embedding=True))
    theirs = checkpoint.tensors["embed_tokens.weight"]
    write_draft(tmp_path / "equal", checkpoint, "original", target_embedding=theirs)
    with pytest.raises(DraftMismatchError, match="differs from the target's embedding"):
        write_draft(tmp_path / "random", checkpoint, "original", target_embedding=theirs + 1e-6)
    assert not (tmp_path / "random").exists()


def test_layouts_on_disk(tmp_path):
    """Each format has its own names: midlayer or layers.0, d2t with t2d or alone, ids as inputs or outputs."""
    checkpoint = tiny_draft_checkpoint()
    files = {f: load_file(written(tmp_path / f, checkpoint, f) / "model.safetensors") for f in DRAFT_FORMATS}
    configs = {f: json.loads((tmp_path / f / "config.json").read_text(encoding="utf-8")) for f in DRAFT_FORMATS}
    assert "midlayer.self_attn.q_proj.weight" in files["original"]
    assert "midlayer.self_attn.q_proj.weight" in files["nvidia"]
    assert "layers.0.self_attn.q_proj.weight" in files["speculators"]
    offsets = files["original"]["d2t"]
    assert offsets.dtype == torch.int64
    assert torch.equal(offsets + torch.arange(24), checkpoint.target_ids_V)
    assert files["original"]["t2d"].dtype == torch.bool
    assert int(files["original"]["t2d"].sum()) == 24
    assert "t2d" not in files["nvidia"]
    assert configs["original"]["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]
    assert "eagle_config" not in configs["original"]
    assert configs["speculators"]["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]
    assert configs["speculators"]["speculators_config"]["algorithm"] == "eagle3"
    assert configs["nvidia"]["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 3, 4]
    full = tiny_draft_checkpoint(tiny_draft_config(draft_vocab_size=40))
    assert not {"d2t", "t2d"} & set(load_file(written(tmp_path / "full", full) / "model.safetensors"))


def test_ignorable_keys_survive(tmp_path):
    """Ordinary Hugging Face keys are carried through a conversion; without any, a generous position limit is set."""
    path = edit_draft_json(written(tmp_path / "a"), bos_token_id=7, max_position_embeddings=2048, max_window_layers=36)
    write_draft(tmp_path / "b", read_draft(path), "speculators")
    write_draft(tmp_path / "c", read_draft(tmp_path / "b"), "original")
    assert json.loads((path / "config.json").read_text()) == json.loads((tmp_path / "c" / "config.json").read_text())
    assert json.loads((written(tmp_path / "d") / "config.json").read_text())["max_position_embeddings"] == 32768


def test_writing_replaces_and_leaves_no_parts(tmp_path):
    """A second write replaces the first; no temporary file stays, and a failed write changes nothing."""
    written(tmp_path)
    second = tiny_draft_checkpoint(seed=3)
    written(tmp_path, second)
    same(read_draft(tmp_path), second)
    broken = replace(second, tensors={name: value for name, value in second.tensors.items() if name != "fc.weight"})
    with pytest.raises(WeightsError, match=r"fc\.weight must have shape"):
        write_draft(tmp_path, broken, "original")
    same(read_draft(tmp_path), second)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_offset_mapping():
    """R1: d2t is an offset: with [3, 3, 5], draft id 2 is target id 7."""
    from eagle3.models.draft_vocabulary import target_ids

    assert target_ids(torch.tensor([3, 3, 5]), None, 3, 8).tolist() == [3, 4, 7]


def test_missing_mapping_is_an_error(tmp_path):
    """R2: fewer draft tokens than target tokens and no d2t is refused at load, with t2d or without."""
    path = edit_draft_tensors(written(tmp_path), d2t=None)
    with pytest.raises(WeightsError, match="hold no d2t"):
        read_draft(path)
    with pytest.raises(WeightsError, match="hold no d2t"):
        read_draft(edit_draft_tensors(path, t2d=None))


@pytest.mark.parametrize(
    ("position", "target_id", "message"),
    [
        (5, 40, r"d2t\[5\] = 35 maps draft id 5 to target id 40; allowed: 0 to 39"),
        (3, -1, r"d2t\[3\] = -4 maps draft id 3 to target id -1"),
        (7, "twin", r"draft ids 2 and 7 to the same target id"),
    ],
)
def test_malformed_mapping_names_the_entry(tmp_path, position, target_id, message):
    """R3: an entry out of range, negative or repeated is an error that names its index."""
    path = written(tmp_path)
    offsets = load_file(path / "model.safetensors")["d2t"]
    twin = int(offsets[2]) + 2
    offsets[position] = (twin if target_id == "twin" else target_id) - position
    with pytest.raises(WeightsError, match=message):
        read_draft(edit_draft_tensors(path, d2t=offsets))


def test_mapping_of_wrong_length_type_or_membership(tmp_path):
    """A d2t of another length or of floats, and a t2d that contradicts it, are errors."""
    path = written(tmp_path)
    tensors = load_file(path / "model.safetensors")
    members = tensors["t2d"].clone()
    members[int(tensors["d2t"][0])] = False
    for change, message in (
        ({"d2t": tensors["d2t"][:-1]}, "d2t has 23 entries; draft_vocab_size asks for 24"),
        ({"d2t": tensors["d2t"].float()}, "vector of integers"),
        ({"d2t": tensors["d2t"], "t2d": members}, "t2d contradicts d2t"),
        ({"t2d": tensors["t2d"][:-1]}, r"t2d has shape \[39\]"),
    ):
        with pytest.raises(WeightsError, match=message):
            read_draft(edit_draft_tensors(path, **({name: tensors[name] for name in ("d2t", "t2d")} | change)))


@pytest.mark.parametrize(
    "change",
    [
        {"use_rotary_twist": False},
        {"eagle_config": {"use_sideways_norm": True}},
        {"parallel_drafting": True},
        {"num_hidden_layers": 2},
        {"hidden_act": "gelu"},
        {"layer_types": ["sliding_attention"]},
        {"quantization_config": {"quant_method": "fp8"}},
        {"eagle_config": {"use_last_layernorm": False}},
        {"architectures": ["Eagle3DeepseekV2ForCausalLM"]},
    ],
)
def test_unknown_or_unsupported_flags_are_refused(tmp_path, change):
    """R8: a key that could change the forward pass is never ignored."""
    with pytest.raises(UnsupportedModelError, match=next(iter(change)).split("_")[0].removesuffix("s")):
        read_draft(edit_draft_json(written(tmp_path), **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm_before_fc": 1}, "norm_before_fc must be true or false"),
        ({"fc_norm": True, "norm_before_fc": True}, "exclude each other"),
        ({"hidden_size": "16"}, "hidden_size must be a whole number"),
        ({"intermediate_size": None}, "lacks 'intermediate_size'"),
        ({"num_aux_hidden_states": 4}, "names 3 layers"),
        ({"eagle_aux_hidden_state_layer_ids": [2, -1, 5]}, "layer numbers from 0 up"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}}, "keep one"),
    ],
)
def test_malformed_config_values(tmp_path, change, message):
    """A value of the wrong type or in contradiction to another is a ConfigError that names the key."""
    with pytest.raises(ConfigError, match=message):
        read_draft(edit_draft_json(written(tmp_path), **change))


def test_eagle1_heads_are_recognised(tmp_path):
    """R9: fc of width 2H or H, a q_proj of width H, or use_aux_hidden_state false is an EAGLE-1/2 head."""
    path = written(tmp_path)
    message = "EAGLE-1/2 head"
    edit_draft_json(path, eagle_config={"use_aux_hidden_state": False})
    with pytest.raises(UnsupportedModelError, match=message):
        read_draft(path)
    edit_draft_json(path, eagle_config=None, eagle_aux_hidden_state_layer_ids=None)
    for width in (16, 32):
        with pytest.raises(UnsupportedModelError, match=message):
            read_draft(edit_draft_tensors(path, fc__weight=torch.zeros(16, width)))
    edit_draft_tensors(path, fc__weight=torch.zeros(16, 48), midlayer__self_attn__q_proj__weight=torch.zeros(16, 16))
    with pytest.raises(UnsupportedModelError, match=message):
        read_draft(path)


def test_query_key_norms_are_refused(tmp_path):
    """A Qwen3-style draft layer is named as unsupported instead of failing on a left-over tensor."""
    path = edit_draft_tensors(written(tmp_path), midlayer__self_attn__q_norm__weight=torch.ones(4))
    with pytest.raises(UnsupportedModelError, match="q_norm"):
        read_draft(path)


def test_norm_output_has_two_meanings(tmp_path):
    """Engines feed back after the norm; with SpecForge's hand and no EAGLE-3.1 flag it only norms the head's input."""
    path = written(tmp_path)
    assert not read_draft(path).config.feedback_normed
    assert read_draft(edit_draft_json(path, norm_output=True)).config.feedback_normed
    specforge = read_draft(edit_draft_json(path, norm_output=True, target_model_type="qwen2_5_vl"))
    assert not specforge.config.feedback_normed
    written(tmp_path / "again", specforge)
    again = json.loads((tmp_path / "again" / "config.json").read_text(encoding="utf-8"))
    assert (again["norm_output"], again["target_model_type"]) == (True, "qwen2_5_vl")
    same(read_draft(tmp_path / "again"), specforge)
    written(tmp_path / "vllm", specforge, "speculators")
    assert not read_draft(tmp_path / "vllm").config.feedback_normed


def test_conventions_can_be_overridden(tmp_path):
    """The same ids name the next layer's input when they are said to count outputs, and back when written so."""
    path = written(tmp_path / "a")
    assert read_draft(path).config.tap_inputs == (2, 4, 5)
    shifted = read_draft(path, convention="output")
    assert shifted.config.tap_inputs == (3, 5, 6)
    write_draft(tmp_path / "b", shifted, "original", convention="output")
    same(read_draft(tmp_path / "b"), read_draft(path))
    with pytest.raises(ConfigError, match="0 is the embedding"):
        write_draft(tmp_path / "c", tiny_draft_checkpoint(tiny_draft_config(tap_inputs=(0, 4, 5))), "nvidia")


def test_rope_spelling_of_transformers_5(tmp_path):
    """rope_parameters is read like rope_theta with rope_scaling."""
    new = {"rope_parameters": {"rope_type": "linear", "rope_theta": 5e5, "factor": 2.0}, "rope_theta": None}
    path = edit_draft_json(written(tmp_path), **new)
    assert read_draft(path).config.rope == Rope(theta=5e5, linear_factor=2.0)


def test_sharded_and_pickled_weights(tmp_path):
    """Shards with an index and pytorch_model.bin read like one safetensors file."""
    path = written(tmp_path)
    expected = read_draft(path)
    tensors = load_file(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    torch.save(tensors, path / "pytorch_model.bin")
    same(read_draft(path), expected)
    (path / "pytorch_model.bin").unlink()
    names = sorted(tensors)
    shards = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for shard, part in shards.items():
        save_file({name: tensors[name] for name in part}, path / shard)
    index = {"weight_map": {name: shard for shard, part in shards.items() for name in part}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    same(read_draft(path), expected)


def test_truncated_weights(tmp_path):
    """A file cut short is a WeightsError that names it."""
    path = written(tmp_path) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WeightsError, match=r"model\.safetensors is truncated"):
        read_draft(tmp_path)


def test_other_spellings_of_tensor_names(tmp_path):
    """layers.0 in the original layout, a model. prefix and training left-overs are understood; doubles are not."""
    path = written(tmp_path)
    expected = read_draft(path)
    tensors = load_file(path / "model.safetensors")
    renamed = {"model." + name.replace("midlayer.", "layers.0."): value for name, value in tensors.items()}
    save_file({**renamed, "verifier_norm.weight": torch.ones(16)}, path / "model.safetensors")
    same(read_draft(path), expected)
    save_file({**tensors, "model.fc.weight": tensors["fc.weight"].clone()}, path / "model.safetensors")
    with pytest.raises(WeightsError, match="twice"):
        read_draft(path)


SIZES = {
    "hidden_size": 2048, "intermediate_size": 12288, "num_attention_heads": 32, "num_key_value_heads": 4,
    "head_dim": 128, "rms_norm_eps": 1e-6, "vocab_size": 151936, "num_hidden_layers": 1, "hidden_act": "silu",
    "attention_bias": False, "attention_dropout": 0.0, "initializer_range": 0.02, "torch_dtype": "bfloat16",
    "bos_token_id": 151643, "eos_token_id": [151645], "transformers_version": "4.53.2", "use_cache": True,
    "tie_word_embeddings": False, "rope_theta": 1e6, "rope_scaling": None, "max_position_embeddings": 2048,
}  # fmt: skip
MODELOPT = {
    "eagle_aux_hidden_state_layer_ids": [1, 23, 44], "use_aux_hidden_state": True, "next_layer_regular": True,
    "use_input_layernorm_in_first_layer": True, "use_last_layernorm": True, "use_mtp_layernorm": False,
    "parallel_draft_step": 1, "parallel_draft_heads_num_layers": 1,
}  # fmt: skip
PROPOSAL = {"proposal_type": "greedy", "speculative_tokens": 3, "accept_tolerance": 0.0, "verifier_accept_k": 1}


@pytest.mark.parametrize(
    ("raw", "format", "taps", "flags"),
    [
        # EAGLE-3.1 config of SpecForge.
        (
            {
                **SIZES, "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "draft_vocab_size": 32000,
                "fc_norm": True, "norm_output": True, "max_window_layers": 48, "sliding_window": None,
                "use_sliding_window": False,
            },
            "original", None, {"fc_norm", "feedback_normed"},
        ),
        # NVIDIA Model Optimizer export.
        (
            {
                **SIZES, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000, "pretraining_tp": 1,
                "mlp_bias": False, "pad_token_id": None, "eagle_config": MODELOPT,
            },
            "nvidia", (2, 24, 45), set(),
        ),
        # speculators, four taps (speculators 1065).
        (
            {
                "architectures": ["Eagle3DraftModel"], "auto_map": {"": "config.Eagle3SpeculatorConfig"},
                "draft_vocab_size": 32000, "dtype": "bfloat16", "eagle_aux_hidden_state_layer_ids": [2, 46, 91, 93],
                "embed_requires_grad": False, "fc_norm": False, "norm_before_fc": True, "norm_before_residual": True,
                "norm_output": True, "speculators_model_type": "eagle3", "speculators_version": "0.8.0.dev0",
                "speculators_config": {"algorithm": "eagle3", "proposal_methods": [PROPOSAL]},
                "target_hidden_size": None, "tie_word_embeddings": False,
                "transformer_layer_config": {**SIZES, "layer_types": ["full_attention"], "mlp_bias": False},
            },
            "speculators", (2, 46, 91, 93), {"norm_before_fc", "norm_before_residual", "feedback_normed"},
        ),
    ],
)  # fmt: skip
def test_configs_of_the_field(raw, format, taps, flags):
    """Configs with the keys that the three exporters write in 2026 are understood without a tensor."""
    assert detect_format(raw, {}) == format
    config, _ = parse_draft_config(raw, {}, format, DEFAULT_CONVENTION[format])
    assert config.tap_inputs == taps
    assert config.num_taps == len(taps or (0, 0, 0))
    assert (config.draft_vocab_size, config.target_hidden_size, config.rope.theta) == (32000, 2048, 1e6)
    named = ("fc_norm", "norm_before_fc", "norm_before_residual", "feedback_normed")
    assert {name for name in named if getattr(config, name)} == flags

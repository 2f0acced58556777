"""From a data folder to an exported draft: what is written can be served, and nothing is mixed up on the way."""

from __future__ import annotations

import functools
import json
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file, save_file

from builders import answered_rows, feature_rows, tiny_draft_config, tiny_target
from eagle3.errors import ConfigError, InvalidInputError
from eagle3.models.draft_formats import read_draft
from eagle3.models.draft_loader import load_draft
from eagle3.train.features import load_shards
from eagle3.train.run import train
from eagle3.train.settings import Stage, TrainSettings
from eagle3.train.trainer import read_log

VOCAB, ROWS, HELD_OUT = 40, 10, 3


@functools.cache
def make_target(taps=(2, 4, 5)):
    target = tiny_target(vocab=VOCAB)
    target.set_taps(taps)
    return target


def make_data(folder):
    feature_rows(make_target(), answered_rows(make_target(), ROWS), folder / "features")
    return folder


@pytest.fixture
def data(tmp_path):
    """A data folder of ten rows."""
    return make_data(tmp_path / "data")


def settings_for(data, name="run", **changes):
    values = {
        "data": data, "output": data.parent / name, "stages": (Stage(optimiser_steps=3, ttt_steps=2),), "bf16": False,
        "held_out": HELD_OUT, "draft_vocab_size": 16, "positions_per_batch": 64, "warmup_steps": 1, "eval_every": 2,
    }  # fmt: skip
    return TrainSettings(**(values | changes))


def ignore(_progress):
    pass


@pytest.fixture(scope="module")
def run_data(tmp_path_factory):
    """The data folder of `exported`; tests leave both as they are."""
    return make_data(tmp_path_factory.mktemp("run") / "data")


@pytest.fixture(scope="module")
def exported(run_data):
    """A finished run's draft."""
    return train(make_target(), settings_for(run_data), None, ignore)


def test_the_exported_draft_can_be_loaded_for_its_target(exported):
    """Original format, bfloat16, the target's sizes, taps named; and it runs."""
    checkpoint = read_draft(exported)
    assert checkpoint.format == "original"
    assert checkpoint.config.tap_inputs == (2, 4, 5)
    assert checkpoint.config.draft_vocab_size == 16
    assert checkpoint.extra["max_position_embeddings"] == make_target().arch.max_position
    assert {value.dtype for value in checkpoint.tensors.values()} == {torch.bfloat16}
    draft = load_draft(exported, make_target())
    assert draft.embedding is make_target().embed_tokens


def test_no_embedding_is_exported(exported):
    """R5: an embedding of the target's width is the target's, so the file has none."""
    assert not [name for name in load_file(exported / "model.safetensors") if "embed" in name]


def test_the_draft_vocabulary_is_the_most_frequent_of_the_training_answers(exported, run_data):
    """`d2t` names tokens counted under the answer mask of the rows that are trained on, held-out rows apart."""
    stored = load_file(exported / "model.safetensors")
    ids = stored["d2t"] + torch.arange(16)
    assert sorted(set(ids.tolist())) == ids.tolist()
    assert stored["t2d"].nonzero()[:, 0].tolist() == ids.tolist()
    rows = load_shards(run_data / "features")
    total = Counter(token for row in rows for token in row.input_ids_S[row.answer_mask_S.bool()].tolist())
    frequent = [token for token, count in total.items() if count > 3 * HELD_OUT * 2]
    assert frequent
    assert set(frequent) <= set(ids.tolist())
    assert set(ids.tolist()) & set(total)


def test_the_exported_weights_are_the_trained_ones(exported):
    """Bit-equal to the last checkpoint in bfloat16, and not the ones that training started from."""
    state = torch.load(exported.parent / "checkpoint.pt", weights_only=True)
    stored = load_file(exported / "model.safetensors")
    assert state["step"] == 3
    for name, value in state["draft"].items():
        assert torch.equal(stored[name], value.to(torch.bfloat16)), name
    fusion = stored["fc.weight"].float()
    width = make_target().arch.hidden_size
    assert not torch.equal(fusion[:, -width:], torch.eye(width))


def test_the_loss_is_drawn(exported):
    """loss.png is a PNG with something in it."""
    content = (exported.parent / "loss.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(content) > 5000


def test_a_finished_run_exports_the_same_again(exported, run_data):
    """Run again with the same settings: nothing is trained, the export is the same."""
    before = (exported / "model.safetensors").read_bytes()
    train(make_target(), settings_for(run_data), None, lambda _progress: pytest.fail("nothing is left to train"))
    assert (exported / "model.safetensors").read_bytes() == before


def test_held_out_rows_are_never_trained_on(data):
    """Spoiling the features of the held-out rows changes the tau that is measured, but no weight."""
    clean = train(make_target(), settings_for(data, "clean"), None, ignore)
    held = spoil_held_out(data)
    assert len(held) == HELD_OUT
    spoiled = train(make_target(), settings_for(data, "spoiled"), None, ignore)
    assert (spoiled / "model.safetensors").read_bytes() == (clean / "model.safetensors").read_bytes()
    losses = [[progress.loss for progress in read_log(path.parent)] for path in (clean, spoiled)]
    assert losses[0] == losses[1]


def spoil_held_out(data):
    """Overwrite the features of the rows that a seed-0 run holds out; returns their indices."""
    import random

    order = list(range(ROWS))
    random.Random(0).shuffle(order)
    path = data / "features" / "00000.safetensors"
    tensors = {name: value.clone() for name, value in load_file(path).items()}
    for index in order[:HELD_OUT]:
        tensors["taps"][int(tensors["offsets"][index]) : int(tensors["offsets"][index + 1])] = 9.0
    save_file(tensors, path)
    return order[:HELD_OUT]


def test_other_settings_in_the_same_output_are_refused(exported, run_data):
    """Two recipes never share checkpoints; the draft that is there stays."""
    before = (exported / "model.safetensors").read_bytes()
    with pytest.raises(ConfigError, match=r"other settings.*choose a new --output"):
        train(make_target(), settings_for(run_data, learning_rate=2e-3), None, ignore)
    assert (exported / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("held_out", [ROWS, ROWS + 1])
def test_holding_out_every_row_is_refused(data, held_out):
    """Nothing would be left to train on; the remedy names both ways out, and no output is made."""
    with pytest.raises(InvalidInputError, match=r"10 rows .* leave nothing.*lower --held-out or build more"):
        train(make_target(), settings_for(data, held_out=held_out), None, ignore)
    assert not (data.parent / "run").exists()


def test_a_draft_vocabulary_above_the_targets_is_refused(data):
    """The default of 8192 tokens is too many for a small target; the message gives the range."""
    with pytest.raises(InvalidInputError, match="8192 tokens asked for; allowed: 1 to 40"):
        train(make_target(), settings_for(data, draft_vocab_size=8192), None, ignore)


def test_a_folder_without_data_is_refused(tmp_path):
    """Bad input, with the command that makes data."""
    with pytest.raises(InvalidInputError, match="eagle3 data build"):
        train(make_target(), settings_for(tmp_path / "none"), None, ignore)


def test_features_of_another_target_are_refused(data):
    """A target of another width would fuse other features."""
    other = tiny_target(vocab=VOCAB, hidden=16)
    with pytest.raises(ConfigError, match="features of width 96; this draft fuses 48"):
        train(other, settings_for(data), None, ignore)


@pytest.mark.parametrize("taps", [(1, 3, 6), (0, 8)])
def test_the_draft_taps_the_layers_that_its_data_came_from(data, taps):
    """R6: data built with --tap trains a draft that names those layers and not the defaults."""
    target = tiny_target(vocab=VOCAB)
    target.set_taps(taps)
    feature_rows(target, answered_rows(target, ROWS), data / "features")
    (data / "build.json").write_text(json.dumps({"tap_inputs": taps}), encoding="utf-8")
    exported = train(target, settings_for(data), None, ignore)
    assert read_draft(exported).config.tap_inputs == taps
    load_draft(exported, target)
    assert target.tap_inputs == taps


def test_training_goes_on_from_a_given_draft(exported, data):
    """`--initial-draft` starts from its weights and keeps its vocabulary, whatever --draft-vocab-size says."""
    settings = settings_for(data, "second", draft_vocab_size=20, stages=(Stage(optimiser_steps=1, ttt_steps=1),),
                            learning_rate=1e-6)  # fmt: skip
    second = train(make_target(), settings, exported, ignore)
    first_tensors, second_tensors = (load_file(path / "model.safetensors") for path in (exported, second))
    assert torch.equal(first_tensors["d2t"], second_tensors["d2t"])
    for name, value in first_tensors.items():
        torch.testing.assert_close(second_tensors[name].float(), value.float(), atol=1e-5, rtol=2**-7)


def test_a_given_draft_of_other_taps_than_the_data_is_refused(exported, data):
    """Its fusion reads other layers than the features hold; training on them would teach it nonsense."""
    (data / "build.json").write_text(json.dumps({"tap_inputs": [1, 3, 6]}), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tap layers \(1, 3, 6\).*taps \(2, 4, 5\)"):
        train(make_target(), settings_for(data, "second"), exported, ignore)


def test_a_fresh_draft_has_the_targets_sizes():
    """The recipe's draft: the target's widths and heads, default taps, no flags."""
    from eagle3.train.initialise import draft_config_for

    arch = make_target().arch
    config = draft_config_for(make_target(), 16)
    assert (config.hidden_size, config.num_heads, config.num_kv_heads) == (32, arch.num_heads, arch.num_kv_heads)
    assert config.tap_inputs == arch.default_tap_inputs()
    assert config == tiny_draft_config(
        hidden_size=32, intermediate_size=64, head_dim=8, target_hidden_size=32, draft_vocab_size=16
    )

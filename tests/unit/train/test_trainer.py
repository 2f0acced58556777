"""The trainer: kills and resumes without a trace, schedules its rate, learns, refuses what cannot be trained."""

from __future__ import annotations

import functools
import json
import math

import pytest
import torch
from pydantic import ValidationError

from builders import answered_rows, feature_rows, tiny_target
from eagle3.errors import InvalidInputError, NumericalError
from eagle3.models.draft import Draft
from eagle3.train import trainer as trainer_module
from eagle3.train.initialise import draft_config_for, initialise_from_target
from eagle3.train.settings import Stage, TrainSettings
from eagle3.train.trainer import Trainer, read_log
from eagle3.train.vocabulary import draft_ids_by_target_id

VOCAB = 40


@functools.cache
def target():
    target = tiny_target(vocab=VOCAB)
    target.set_taps(target.arch.default_tap_inputs())
    return target


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Sixteen answers of the target with its features."""
    return feature_rows(target(), answered_rows(target(), 16), tmp_path_factory.mktemp("features"))


def fresh_draft():
    draft = Draft(draft_config_for(target(), VOCAB))
    draft.share_embedding(target().embed_tokens)
    initialise_from_target(draft, target(), torch.Generator().manual_seed(0))
    return draft


def settings_for(output, stages=((4, 1), (5, 2)), **changes):
    values = {
        "data": output, "output": output, "held_out": 2, "positions_per_batch": 64, "warmup_steps": 2, "bf16": False,
        "eval_every": 3, "checkpoint_every": 2, "learning_rate": 3e-3,
        "stages": [Stage(optimiser_steps=steps, ttt_steps=ttt) for steps, ttt in stages],
    }  # fmt: skip
    return TrainSettings(**(values | changes))


def make_trainer(rows, settings):
    inverse = draft_ids_by_target_id(torch.arange(VOCAB), VOCAB)
    return Trainer(fresh_draft(), inverse, rows[2:], rows[:2], settings)


def weights(trainer):
    return {name: parameter.detach().clone() for name, parameter in trainer.draft.named_parameters()}


class KilledError(Exception):
    """Stands for a signal."""


def kill_at(step):
    def on_progress(progress):
        if progress.step == step:
            raise KilledError

    return on_progress


def ignore(_progress):
    pass


@pytest.mark.parametrize("kills", [[1], [3], [4], [7], [2, 5, 8]])
def test_a_killed_and_resumed_run_ends_with_the_same_weights(rows, tmp_path, kills):
    """KilledError after any steps, at a checkpoint or past it, across epochs and stages, the weights are bit-equal."""
    plain = make_trainer(rows, settings_for(tmp_path / "plain", eval_every=1))
    plain.run(ignore)
    settings = settings_for(tmp_path / "killed", eval_every=1)
    for step in kills:
        with pytest.raises(KilledError):
            make_trainer(rows, settings).run(kill_at(step))
    resumed = make_trainer(rows, settings)
    resumed.run(ignore)
    wanted = weights(plain)
    assert all(torch.equal(value, wanted[name]) for name, value in weights(resumed).items())
    assert not all(torch.equal(value, wanted[name]) for name, value in fresh_draft().named_parameters())
    log, other = read_log(settings.output), read_log(tmp_path / "plain")
    assert [p.step for p in log] == [p.step for p in other] == list(range(1, 10))
    assert [p.loss for p in log] == [p.loss for p in other]
    assert [p.held_out_tau for p in log] == [p.held_out_tau for p in other]


def test_a_run_spans_epochs(rows, tmp_path):
    """The runs above cross an epoch: fourteen rows make fewer batches than there are steps."""
    trainer = make_trainer(rows, settings_for(tmp_path))
    trainer.run(ignore)
    assert trainer._epoch >= 1
    assert trainer._step == 9


def test_a_resumed_run_repeats_no_more_than_since_the_checkpoint(rows, tmp_path, monkeypatch):
    """KilledError at step 7 with a checkpoint every 2, training goes on at step 6."""
    settings = settings_for(tmp_path, eval_every=1)
    with pytest.raises(KilledError):
        make_trainer(rows, settings).run(kill_at(7))
    steps = []
    make_trainer(rows, settings).run(lambda progress: steps.append(progress.step))
    assert steps == [7, 8, 9]


def test_a_finished_run_does_nothing_more(rows, tmp_path):
    """Started again after its end, a run keeps its weights and logs nothing."""
    settings = settings_for(tmp_path)
    first = make_trainer(rows, settings)
    first.run(ignore)
    lines = (tmp_path / "training.jsonl").read_text(encoding="utf-8")
    again = make_trainer(rows, settings)
    again.run(lambda _progress: pytest.fail("a finished run has no progress"))
    assert all(torch.equal(value, weights(first)[name]) for name, value in weights(again).items())
    assert (tmp_path / "training.jsonl").read_text(encoding="utf-8") == lines


def test_a_checkpoint_that_was_being_written_is_not_read(rows, tmp_path, monkeypatch):
    """A kill inside the write leaves the checkpoint before it whole, and the run resumes from that."""
    settings = settings_for(tmp_path, eval_every=1)
    real_save, saves = torch.save, []

    def broken_save(state, path):
        saves.append(path)
        if len(saves) == 2:
            path.write_bytes(b"half a check")
            raise KilledError
        real_save(state, path)

    with monkeypatch.context() as patched:
        patched.setattr(trainer_module.torch, "save", broken_save)
        with pytest.raises(KilledError):
            make_trainer(rows, settings).run(ignore)
    assert all(path.name != "checkpoint.pt" for path in saves)
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == 2
    steps = []
    make_trainer(rows, settings).run(lambda progress: steps.append(progress.step))
    assert steps[0] == 3


def test_a_log_line_that_was_cut_by_a_kill_is_left_out(rows, tmp_path):
    """A half-written last line of the log costs that line, not the finished run."""
    settings = settings_for(tmp_path, eval_every=1)
    with pytest.raises(KilledError):
        make_trainer(rows, settings).run(kill_at(5))
    path = tmp_path / "training.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    make_trainer(rows, settings).run(ignore)
    assert [progress.step for progress in read_log(tmp_path)] == list(range(1, 10))


def test_the_learning_rate_warms_up_and_falls(rows, tmp_path):
    """Linear over the warm-up, then half a cosine from the peak down to `final_rate` of it at the last step."""
    settings = settings_for(tmp_path, stages=((12, 1),), warmup_steps=4, final_rate=0.1, eval_every=1)
    trainer = make_trainer(rows, settings)
    trainer.run(ignore)
    rates = [progress.learning_rate / settings.learning_rate for progress in read_log(tmp_path)]

    def cosine(step):
        return 0.1 + 0.9 * (1 + math.cos(math.pi * step / 11)) / 2

    assert rates == pytest.approx([cosine(step) * min(1, (step + 1) / 4) for step in range(12)])
    assert rates[0] == pytest.approx(0.25)
    assert rates[-1] == pytest.approx(0.1)


def test_no_warm_up_starts_at_the_peak(rows, tmp_path):
    """`warmup_steps` 0 divides by nothing; one step in all has the peak rate."""
    settings = settings_for(tmp_path, stages=((1, 1),), warmup_steps=0, eval_every=1)
    make_trainer(rows, settings).run(ignore)
    assert read_log(tmp_path)[0].learning_rate == settings.learning_rate


def test_stages_follow_each_other(rows, tmp_path):
    """Each stage has its number of training-time-test steps, and they add up."""
    settings = settings_for(tmp_path, stages=((2, 1), (1, 3), (2, 2)), eval_every=1)
    assert settings.total_steps == 5
    make_trainer(rows, settings).run(ignore)
    assert [progress.ttt_steps for progress in read_log(tmp_path)] == [1, 1, 3, 2, 2]


def test_held_out_tau_is_measured_when_asked_and_at_the_end(rows, tmp_path):
    """At multiples of `eval_every` and after the last step, with one share for each step of the chain."""
    settings = settings_for(tmp_path, stages=((7, 1),), eval_every=3, eval_ttt_steps=3)
    make_trainer(rows, settings).run(ignore)
    log = read_log(tmp_path)
    assert [progress.step for progress in log] == [3, 6, 7]
    for progress in log:
        assert 1.0 <= progress.held_out_tau <= 4.0
        assert len(progress.held_out_accuracy) == 3
        assert progress.held_out_tau == pytest.approx(1 + sum(progress.held_out_accuracy), abs=1e-3)
        assert list(progress.held_out_accuracy) == sorted(progress.held_out_accuracy, reverse=True)


def test_it_learns_a_tiny_data_set(rows, tmp_path):
    """Overfits its rows: nine in ten first tokens right (two before), chains of tau above 2.5 (1.5 before)."""
    settings = settings_for(
        tmp_path, stages=((40, 1), (60, 3)), learning_rate=1e-2, positions_per_batch=512, eval_every=20,
        checkpoint_every=1000, feature_noise=0.01,
    )  # fmt: skip
    inverse = draft_ids_by_target_id(torch.arange(VOCAB), VOCAB)
    trainer = Trainer(fresh_draft(), inverse, rows, rows, settings)
    tau_before, shares_before = trainer.held_out_tau()
    trainer.run(ignore)
    last = read_log(tmp_path)[-1]
    assert tau_before < 1.6
    assert shares_before[0] < 0.3
    assert last.first_accuracy > 0.9
    assert last.held_out_tau > 2.5
    assert last.held_out_accuracy[0] > 0.9


def test_a_loss_that_is_not_finite_stops_the_run(rows, tmp_path):
    """NaN is a NumericalError that says where and what to do; no later checkpoint overwrites the good one."""
    settings = settings_for(tmp_path, eval_every=1)
    trainer = make_trainer(rows, settings)

    def poison(progress):
        if progress.step == 5:
            with torch.no_grad():
                trainer.draft.fc.weight.fill_(float("nan"))

    with pytest.raises(
        NumericalError, match=r"nan at step 5.*another --output.*lower learning rate than 0\.003"
    ) as error:
        trainer.run(poison)
    assert error.value.exit_code == 4
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["step"] == 4
    assert all(bool(torch.isfinite(value).all()) for value in state["draft"].values())


def test_nothing_to_train_on_is_refused(rows, tmp_path):
    """No training rows is bad input, named with the command that makes some."""
    with pytest.raises(InvalidInputError, match="data build"):
        Trainer(fresh_draft(), torch.arange(VOCAB), [], rows, settings_for(tmp_path))


def test_the_embedding_of_the_target_is_not_trained(rows, tmp_path):
    """The target's embedding, which the draft reads, stays as it is."""
    before = target().embed_tokens.weight.clone()
    make_trainer(rows, settings_for(tmp_path)).run(ignore)
    assert torch.equal(target().embed_tokens.weight, before)


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": 0.0},
        {"learning_rate": -1e-3},
        {"learning_rate": math.nan},
        {"learning_rate": math.inf},
        {"held_out": 0},
        {"warmup_steps": -1},
        {"final_rate": 1.5},
        {"weight_decay": -0.1},
        {"clip_norm": 0.0},
        {"step_decay": 0.0},
        {"step_decay": 1.1},
        {"feature_noise": -0.1},
        {"feature_noise": math.inf},
        {"positions_per_batch": 8},
        {"max_length": 4},
        {"eval_ttt_steps": 17},
        {"eval_every": 0},
        {"checkpoint_every": 0},
        {"draft_vocab_size": 0},
        {"seed": 2**63},
        {"stages": ()},
        {"stages": [{"optimiser_steps": 0, "ttt_steps": 1}]},
        {"stages": [{"optimiser_steps": 1, "ttt_steps": 17}]},
        {"learning_rat": 1e-3},
    ],
    ids=lambda changes: json.dumps(changes),
)
def test_settings_out_of_range_are_refused(tmp_path, changes):
    """Every number has its range, not a number and infinity are outside it, and unknown names are errors."""
    with pytest.raises(ValidationError):
        settings_for(tmp_path, **changes)

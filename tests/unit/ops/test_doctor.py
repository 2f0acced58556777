"""The doctor: healthy drafts pass, and each fault in files or reading is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from builders import (
    edit_draft_json,
    edit_draft_tensors,
    markov_draft_checkpoint,
    markov_target,
    randomise,
)
from eagle3.errors import InvalidInputError
from eagle3.models.draft import Draft
from eagle3.models.draft_formats import write_draft
from eagle3.models.draft_loader import load_draft
from eagle3.ops.doctor import diagnose
from eagle3.ops.probe import first_position_acceptance, greedy_rows


@pytest.fixture(scope="module")
def target():
    """A target whose next token follows from the last one."""
    return markov_target()


def written(path, format="original", **changes):
    """The draft that knows it, on disk, with changes to its config only."""
    checkpoint = markov_draft_checkpoint()
    write_draft(path, replace(checkpoint, config=replace(checkpoint.config, **changes)), format)
    return path


def errors(diagnosis):
    """What the error findings say."""
    return [finding.what for finding in diagnosis.findings if finding.severity == "error"]


@pytest.mark.parametrize("format", ["original", "speculators", "nvidia"])
def test_a_draft_that_knows_its_target_is_healthy(tmp_path, target, format):
    """Accepts all: a draft that is always right passes in every format, at both positions, and taps are restored."""
    diagnosis = diagnose(target, written(tmp_path, format))
    assert diagnosis.ok, errors(diagnosis)
    assert diagnosis.first_acceptance["as read"] == 1.0
    assert diagnosis.second_acceptance["as read"] == 1.0
    assert target.tap_inputs == ()


def test_given_rows_are_used(tmp_path, target):
    """Rows given by the caller are measured; a row too short to measure is bad input."""
    rows = (torch.arange(12) * 7 % 64)[None].repeat(2, 1)
    path = written(tmp_path)
    assert diagnose(target, path, probe_rows=rows).first_acceptance["as read"] == 1.0
    with pytest.raises(InvalidInputError, match="at least 4 tokens"):
        diagnose(target, path, probe_rows=rows[:, :3])


def test_greedy_rows_continue_the_target(target):
    """The continuation is the target's own: every token after the prompt is its greedy choice."""
    rows = greedy_rows(target, prompts=2, length=10)
    tokens = rows.token_ids_BS[:, rows.skip - 1 :]
    assert torch.equal(tokens[:, 1:], (tokens[:, :-1] + 7) % 64)


@pytest.mark.parametrize(
    ("format", "shift", "name"), [("original", -1, "outputs of layers"), ("nvidia", 1, "inputs of layers")]
)
def test_the_wrong_tap_convention_is_named(tmp_path, target, format, shift, name):
    """R6: ids that count the other way load, draft badly, and the doctor names the reading that fits."""
    diagnosis = diagnose(target, written(tmp_path, format, tap_inputs=tuple(tap + shift for tap in (2, 4, 5))))
    assert not diagnosis.ok
    (what,) = errors(diagnosis)
    assert name in what
    assert "100%" in what
    assert "[2, 4, 5]" in diagnosis.findings[0].remedy


def test_the_convention_can_be_told(tmp_path, target):
    """Reading the same files with the right convention heals them."""
    path = written(tmp_path, tap_inputs=(1, 3, 4))
    assert diagnose(target, path, convention="output").ok


def test_wrong_norm_flags_are_named(tmp_path, target):
    """A wrong norm_before_residual and a wrong norm_output load, and the doctor names each."""
    (what,) = errors(diagnose(target, written(tmp_path / "residual", norm_before_residual=True)))
    assert "norm_before_residual false" in what
    (what,) = errors(diagnose(target, written(tmp_path / "output", feedback_normed=False)))
    assert "norm_output was read wrongly" in what


def test_a_random_draft_is_useless(tmp_path, target):
    """Accepts none: random weights load in every respect, and the doctor says that they are useless."""
    checkpoint = markov_draft_checkpoint()
    draft = randomise(Draft(checkpoint.config))
    write_draft(tmp_path, replace(checkpoint, tensors=draft.state_dict()), "original")
    assert first_position_acceptance(target, load_draft(tmp_path, target), greedy_rows(target).token_ids_BS) < 0.05
    diagnosis = diagnose(target, tmp_path)
    assert not diagnosis.ok
    assert "loads but is useless" in errors(diagnosis)[0]


def test_all_faults_are_reported_together(tmp_path, target):
    """A missing tensor, a NaN, a left-over tensor, a malformed d2t and a wrong width are found in one run."""
    path = written(tmp_path)
    offsets = torch.zeros(64, dtype=torch.int64)
    offsets[9] = 100
    edit_draft_tensors(
        path,
        d2t=offsets,
        norm__weight=None,
        lm_head__weight=torch.full((64, 72), float("nan")),
        input_norm__weight=torch.ones(216),
    )
    edit_draft_json(path, target_hidden_size=70)
    diagnosis = diagnose(target, path)
    assert not diagnosis.ok
    text = "\n".join(errors(diagnosis))
    for part in (
        "the weights lack norm.weight",
        "lm_head.weight holds NaN",
        "does not use the tensor input_norm.weight",
        "d2t[9]",
        "features of width 70",
        "fc.weight has shape [72, 216]; the config asks for [72, 210]",
    ):
        assert part in text
    assert any(finding.remedy == "set norm_before_fc to true" for finding in diagnosis.findings)
    assert diagnosis.first_acceptance == {}


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_a_finding(tmp_path, target, name):
    """A directory without config or weights gives findings, not a traceback."""
    path = written(tmp_path)
    (path / name).unlink()
    assert not diagnose(target, path).ok


def test_a_target_that_does_not_load_is_a_finding(tmp_path):
    """With an unreadable target the files of the draft are still examined."""
    diagnosis = diagnose(tmp_path / "none", edit_draft_tensors(written(tmp_path / "draft"), norm__weight=None))
    assert len(errors(diagnosis)) == 2


def test_notes_and_warnings_do_not_fail(tmp_path, target):
    """Another rope_theta is a note, omitted tap ids and an embedding that is nearly the target's are warnings."""
    checkpoint = markov_draft_checkpoint()
    config = replace(checkpoint.config, own_embedding=True, tap_inputs=None)
    tensors = checkpoint.tensors | {"embed_tokens.weight": target.embed_tokens.weight * 1.01}
    write_draft(tmp_path, replace(checkpoint, config=config, tensors=tensors), "original")
    diagnosis = diagnose(target, edit_draft_json(tmp_path, rope_theta=5e5))
    assert diagnosis.ok, errors(diagnosis)
    text = "\n".join(f"{finding.severity}: {finding.what}" for finding in diagnosis.findings)
    assert "note: the draft's rope_theta is 500000, the target's 10000" in text
    assert "warning: the config names no tap layers; the default inputs of layers 2, 4, 5 are used" in text
    assert "warning: the draft's embedding differs" in text


def test_a_random_embedding_is_an_error(tmp_path, target):
    """R5: an embedding unlike the target's is named before anything is measured."""
    checkpoint = markov_draft_checkpoint()
    noise = torch.randn(64, 72, generator=torch.Generator().manual_seed(0))
    config = replace(checkpoint.config, own_embedding=True)
    tensors = checkpoint.tensors | {"embed_tokens.weight": noise}
    write_draft(tmp_path, replace(checkpoint, config=config, tensors=tensors), "original")
    assert "embedding differs" in errors(diagnose(target, tmp_path))[0]


def test_probe_can_be_left_out(tmp_path, target):
    """Without the probe only files are judged."""
    diagnosis = diagnose(target, written(tmp_path, tap_inputs=(1, 3, 4)), probe=False)
    assert diagnosis.ok
    assert diagnosis.first_acceptance == {}

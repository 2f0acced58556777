"""Loading a draft for a target: what must fit, and that the files' conventions reach the forward pass."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch

from builders import (
    TINY_CONFIG,
    edit_draft_json,
    edit_draft_tensors,
    markov_target,
    randomise,
    tiny_draft_checkpoint,
    tiny_draft_config,
)
from eagle3.errors import DraftMismatchError, WeightsError
from eagle3.models.architecture import architecture_from_hf
from eagle3.models.attention import causal_attend
from eagle3.models.draft_formats import write_draft
from eagle3.models.draft_loader import load_draft
from eagle3.models.target import Target


@pytest.fixture
def target():
    """A random target of eight layers, the fewest with room around the defaults."""
    arch = architecture_from_hf(TINY_CONFIG | {"num_hidden_layers": 8})
    return randomise(Target(arch)).eval().requires_grad_(False)


def written(path, format="original", **changes):
    """A tiny draft on disk."""
    write_draft(path, tiny_draft_checkpoint(tiny_draft_config(**changes)), format)
    return path


@torch.inference_mode()
def draft_logits(draft, target, length=6):
    """Logits and output of the draft over the target's features of a short sequence."""
    ids = torch.arange(length)[None] % target.arch.vocab_size
    positions = torch.arange(length)[None]
    taps = target(ids, positions, causal_attend).taps_BSF
    out = draft(ids, draft.fuse(taps), positions, causal_attend)
    return draft.logits(out.normed_BSH), out


@pytest.mark.parametrize("format", ["original", "speculators", "nvidia"])
def test_every_format_gives_the_same_draft(tmp_path, target, format):
    """A draft computes the same logits from whichever format it was loaded, and reads the target's embedding."""
    reference, _ = draft_logits(load_draft(written(tmp_path / "a"), target), target)
    draft = load_draft(written(tmp_path / "b", format), target)
    assert torch.equal(draft_logits(draft, target)[0], reference)
    assert draft.embedding is target.embed_tokens
    assert target.tap_inputs == (2, 4, 5)
    assert not draft.training
    assert not any(parameter.requires_grad for parameter in draft.parameters())


def test_draft_ids_map_to_target_ids(tmp_path, target):
    """R1: target_ids_V is i + d2t[i]; with [3, 3, 5] draft id 2 proposes target id 7."""
    path = written(tmp_path, draft_vocab_size=3)
    edit_draft_tensors(path, d2t=torch.tensor([3, 3, 5]), t2d=None)
    draft = load_draft(path, target)
    assert draft.target_ids_V.tolist() == [3, 4, 7]
    scattered = torch.full((40,), float("-inf"))
    scattered[draft.target_ids_V] = torch.tensor([0.1, 0.2, 0.3])
    assert int(scattered.argmax()) == 7
    assert int(torch.isfinite(scattered).sum()) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_hidden_size": 24}, "features of width 24, the target's are 16"),
        ({"vocab_size": 64}, "vocabulary of 64 tokens, the target has 40"),
        ({"hidden_size": 24, "head_dim": 4}, r"brings no embed_tokens\.weight"),
        ({"tap_inputs": (2, 4, 9)}, "tap layer 9"),
        ({"tap_inputs": None, "num_taps": 2}, "fuses 2 features but names no tap layers"),
    ],
)
def test_mismatches_are_named(tmp_path, target, changes, message):
    """A draft of another target is refused with what differs, and the target's taps stay as they were."""
    with pytest.raises(DraftMismatchError, match=message):
        load_draft(written(tmp_path, **changes), target)
    assert target.tap_inputs == ()


def test_a_draft_of_another_width_with_its_own_embedding(tmp_path, target):
    """The narrower head of Llama-3.3-70B loads, as it brings its embedding."""
    draft = load_draft(written(tmp_path, hidden_size=24, own_embedding=True), target)
    assert draft.embedding is draft.embed_tokens
    assert draft_logits(draft, target)[0].shape == (1, 6, 24)


def test_missing_misshapen_or_damaged_tensors(tmp_path, target):
    """A tensor that is absent, of the wrong shape or NaN is a WeightsError that names it."""
    path = written(tmp_path)
    for value in (None, torch.zeros(3), torch.full((16,), float("nan"))):
        with pytest.raises(WeightsError, match=r"norm\.weight"):
            load_draft(edit_draft_tensors(path, norm__weight=value), target)


def test_conventions_name_the_same_physical_state(tmp_path):
    """R6: ids [1, 3, 4] as outputs (nvidia) and [2, 4, 5] as inputs (original) tap the same states."""
    target = markov_target()
    with torch.no_grad():
        for layer in target.layers:
            layer.mlp.down_proj.bias.fill_(1.0)
    changes = {"vocab_size": 64, "target_hidden_size": 72, "hidden_size": 72, "head_dim": 4}
    taps = []
    for format in ("original", "nvidia"):
        load_draft(written(tmp_path / format, format, **changes), target)
        out = target(torch.tensor([[0, 1]]), torch.tensor([[0, 1]]), causal_attend)
        taps.append(out.taps_BSF)
    assert torch.equal(taps[0], taps[1])
    embedded = target.embed_tokens(torch.tensor([[0, 1]]))
    assert torch.equal(taps[0], torch.cat([embedded + 2, embedded + 4, embedded + 5], dim=-1))


def test_omitted_ids_give_the_default_and_one_warning(tmp_path, target, caplog):
    """R7: without ids the default layers are tapped and exactly one warning names them."""
    with caplog.at_level(logging.WARNING):
        draft = load_draft(written(tmp_path, tap_inputs=None), target)
    assert target.tap_inputs == draft.config.tap_inputs == (2, 4, 5)
    assert len(caplog.records) == 1
    assert "layers 2, 4, 5" in caplog.records[0].getMessage()


@pytest.mark.parametrize("flag", ["norm_before_fc", "fc_norm", "norm_before_residual"])
def test_flags_reach_the_forward_pass(tmp_path, target, flag):
    """R8: each norm flag, with non-unit weights, changes the logits."""
    plain = tiny_draft_checkpoint()
    flagged = tiny_draft_checkpoint(tiny_draft_config(**{flag: True}))
    flagged = replace(flagged, tensors=flagged.tensors | plain.tensors)
    logits = []
    for name, checkpoint in (("off", plain), ("on", flagged)):
        write_draft(tmp_path / name, checkpoint, "original")
        logits.append(draft_logits(load_draft(tmp_path / name, target), target)[0])
    assert not torch.allclose(logits[0], logits[1])


def test_norm_output_reaches_the_forward_pass(tmp_path, target):
    """R8: norm_output leaves the first logits alone and changes the state that is fed back."""
    plain, raised = (load_draft(written(tmp_path / str(on), feedback_normed=on), target) for on in (False, True))
    (logits, out), (logits_on, out_on) = draft_logits(plain, target), draft_logits(raised, target)
    assert torch.equal(logits, logits_on)
    assert torch.equal(out_on.feedback_BSH, out_on.normed_BSH)
    assert not torch.allclose(out.feedback_BSH, out_on.feedback_BSH)


def test_draft_max_position_does_not_limit(tmp_path, target):
    """R10: a prompt of 20 tokens computes the same with max_position_embeddings 16 and 64."""
    logits = []
    for limit in (16, 64):
        path = edit_draft_json(written(tmp_path / str(limit)), max_position_embeddings=limit)
        logits.append(draft_logits(load_draft(path, target), target, length=20)[0])
    assert torch.equal(logits[0], logits[1])


def test_dtype_and_frequencies(tmp_path, target):
    """The draft comes in the dtype asked for, with float32 rotary frequencies that are real numbers."""
    draft = load_draft(written(tmp_path), target, dtype=torch.bfloat16)
    assert draft.fc.weight.dtype == torch.bfloat16
    assert draft.inv_freq.dtype == torch.float32
    assert torch.equal(draft.inv_freq, torch.tensor([1.0, 0.01]))

"""Ten optimiser steps of a tiny draft: against stored losses, and against the recipe written out naively."""

from __future__ import annotations

import functools
import math
import random

import pytest
import torch

from builders import answered_rows, feature_rows, tiny_target
from eagle3.models.draft import Draft
from eagle3.train.batches import batches
from eagle3.train.initialise import draft_config_for, initialise_from_target
from eagle3.train.settings import Stage, TrainSettings
from eagle3.train.trainer import Trainer, read_log
from eagle3.train.vocabulary import count_tokens, draft_ids_by_target_id, select_draft_vocabulary
from training_reference import ReferenceDraft, step_losses

VOCAB, DRAFT_VOCAB = 40, 24
# Step-0 losses in nats, float32 on the CPU, torch 2.13; made by this test on 30 November 2026.
GOLDEN = [6.559, 4.11721, 3.74087, 3.7367, 2.07435, 3.03993, 1.79561, 2.66111, 1.86034, 2.40866]


@functools.cache
def target():
    target = tiny_target(vocab=VOCAB)
    target.set_taps(target.arch.default_tap_inputs())
    return target


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Six rows, which make two batches an epoch."""
    return feature_rows(target(), answered_rows(target(), 6, answer=8), tmp_path_factory.mktemp("features"))


def settings_for(output):
    return TrainSettings(
        data=output, output=output, held_out=1,
        stages=(Stage(optimiser_steps=4, ttt_steps=1), Stage(optimiser_steps=6, ttt_steps=3)),
        learning_rate=5e-3, warmup_steps=3, positions_per_batch=48, feature_noise=0.0, bf16=False,
        eval_every=1, seed=7,
    )  # fmt: skip


def fresh(rows):
    """The draft before training, and where target ids are in its vocabulary."""
    counts = count_tokens([row.input_ids_S[row.answer_mask_S.bool()].tolist() for row in rows])
    draft = Draft(draft_config_for(target(), DRAFT_VOCAB))
    draft.target_ids_V = select_draft_vocabulary(counts, VOCAB, DRAFT_VOCAB)
    draft.share_embedding(target().embed_tokens)
    initialise_from_target(draft, target(), torch.Generator().manual_seed(7))
    return draft, draft_ids_by_target_id(draft.target_ids_V, VOCAB)


@pytest.fixture(scope="module")
def trained(rows, tmp_path_factory):
    """Losses of the trainer, step by step, and its weights after the last."""
    output = tmp_path_factory.mktemp("output")
    draft, inverse = fresh(rows)
    Trainer(draft, inverse, rows, [], settings_for(output)).run(lambda _progress: None)
    return [progress.loss for progress in read_log(output)], dict(draft.named_parameters())


def test_the_losses_are_the_stored_ones(trained):
    """A change of the recipe, its order of batches, its schedule or its defaults shows in ten numbers."""
    losses, _ = trained
    assert losses == pytest.approx(GOLDEN, abs=1e-4)
    assert losses[-1] < losses[0] - 1.0


def test_the_losses_are_those_of_the_recipe_written_out_naively(rows, trained, tmp_path):
    """Explicit chains, autograd and AdamW by its formula: the same losses and the same weights."""
    settings = settings_for(tmp_path)
    draft, inverse = fresh(rows)
    tensors = {name: value.detach().clone().requires_grad_() for name, value in draft.named_parameters()}
    reference = ReferenceDraft(tensors, draft.config, draft.embedding.weight)
    first_moment = {name: torch.zeros_like(value) for name, value in tensors.items()}
    second_moment = {name: torch.zeros_like(value) for name, value in tensors.items()}
    losses = []
    stream = naive_stream(rows, inverse, settings)
    for step in range(10):
        batch = next(stream)
        steps = 1 if step < 4 else 3
        first_start = int(batch.answer_BS.any(dim=0).nonzero()[0]) - 2
        per_step = step_losses(reference.guesses(batch, steps, first_start), steps)
        losses.append(float(per_step[0].detach()))
        total = sum(0.8**number * loss for number, loss in enumerate(per_step))
        gradients = dict(zip(tensors, torch.autograd.grad(total, list(tensors.values())), strict=True))
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients.values()))
        rate = 5e-3 * min(1, (step + 1) / 3) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / 9)))
        with torch.no_grad():
            for name, value in tensors.items():
                gradient = gradients[name] * min(1.0, 0.5 / norm)
                first_moment[name] = 0.9 * first_moment[name] + 0.1 * gradient
                second_moment[name] = 0.95 * second_moment[name] + 0.05 * gradient.square()
                value *= 1 - rate * (0.01 if value.dim() > 1 else 0.0)
                corrected = (second_moment[name] / (1 - 0.95 ** (step + 1))).sqrt() + 1e-8
                value -= rate * first_moment[name] / (1 - 0.9 ** (step + 1)) / corrected
    got, weights = trained
    assert got == pytest.approx(losses, abs=1e-4, rel=1e-5)
    for name, value in tensors.items():
        torch.testing.assert_close(weights[name], value, atol=2e-3, rtol=0)


def naive_stream(rows, inverse, settings):
    """The batches of epoch after epoch."""
    epoch = 0
    while True:
        rng = random.Random(f"{settings.seed}/{epoch}")
        yield from batches(rows, inverse, positions_per_batch=48, max_length=2048, rng=rng)
        epoch += 1

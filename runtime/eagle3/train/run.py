"""One training run from a data folder to an exported draft: vocabulary, initial weights, training, export, plot."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import torch

from eagle3.errors import ConfigError, InvalidInputError
from eagle3.models.draft import Draft
from eagle3.models.draft_formats import DraftCheckpoint, write_draft
from eagle3.models.draft_loader import load_draft
from eagle3.models.target import Target
from eagle3.train.features import FeatureRow, load_shards
from eagle3.train.initialise import draft_config_for, initialise_from_target
from eagle3.train.settings import TrainSettings, check_same_settings
from eagle3.train.trainer import Progress, Trainer, read_log
from eagle3.train.vocabulary import count_tokens, draft_ids_by_target_id, select_draft_vocabulary

_EXPORT_DTYPE = torch.bfloat16


def train(
    target: Target, settings: TrainSettings, initial: Path | None, on_progress: Callable[[Progress], None]
) -> Path:
    """Train or finish training; returns the folder of the exported draft."""
    if find_spec("matplotlib") is None:  # asked for before hours of training, not after
        raise ConfigError("training draws a loss plot and needs matplotlib; install the extra: pip install '.[train]'")
    rows = load_shards(settings.data / "features")
    random.Random(settings.seed).shuffle(rows)
    if settings.held_out >= len(rows):
        raise InvalidInputError(
            f"{len(rows)} rows in {settings.data} leave nothing to train on beside {settings.held_out} held out; "
            "lower --held-out or build more data"
        )
    held_out, train_rows = rows[: settings.held_out], rows[settings.held_out :]
    taps = _data_taps(settings.data, target)
    draft = load_draft(initial, target) if initial else _fresh_draft(target, settings, train_rows, taps)
    draft.requires_grad_(True)
    _check_features(draft, rows[0], taps)
    _remember(settings)
    inverse = draft_ids_by_target_id(draft.target_ids_V, target.arch.vocab_size)
    trainer = Trainer(draft, inverse, train_rows, held_out, settings)
    trainer.run(on_progress)
    exported = settings.output / "draft"
    write_draft(
        exported,
        DraftCheckpoint(
            config=draft.config,
            tensors={name: p.detach().to(_EXPORT_DTYPE) for name, p in draft.named_parameters()},
            target_ids_V=draft.target_ids_V,
            extra={"max_position_embeddings": target.arch.max_position},
        ),
        "original",
    )
    _plot(read_log(settings.output), settings.output / "loss.png")
    return exported


def _data_taps(data: Path, target: Target) -> tuple[int, ...]:
    """Tap layers that the features were taken from, as layer inputs."""
    path = data / "build.json"
    named = json.loads(path.read_text(encoding="utf-8")).get("tap_inputs") if path.is_file() else None
    return tuple(named) if named else target.arch.default_tap_inputs()


def _fresh_draft(target: Target, settings: TrainSettings, rows: Sequence[FeatureRow], taps: tuple[int, ...]) -> Draft:
    counts = count_tokens(row.input_ids_S[row.answer_mask_S.bool()].tolist() for row in rows)
    config = replace(draft_config_for(target, settings.draft_vocab_size), tap_inputs=taps, num_taps=len(taps))
    draft = Draft(config)
    draft.target_ids_V = select_draft_vocabulary(counts, target.arch.vocab_size, settings.draft_vocab_size)
    draft.share_embedding(target.embed_tokens)
    initialise_from_target(draft, target, torch.Generator().manual_seed(settings.seed))
    return draft


def _check_features(draft: Draft, row: FeatureRow, taps: tuple[int, ...]) -> None:
    if draft.config.tap_inputs != taps:
        raise ConfigError(
            f"the data has features of tap layers {taps}, by layer input; this draft taps {draft.config.tap_inputs}; "
            "build the data with --tap for each of them"
        )
    wanted = draft.config.num_taps * draft.config.target_hidden_size
    if row.taps_SF.shape[1] != wanted:
        raise ConfigError(
            f"the data has features of width {row.taps_SF.shape[1]}; this draft fuses {wanted}; "
            "build the data with this target"
        )


def _remember(settings: TrainSettings) -> None:
    """Write the settings beside the checkpoints; a resumed run must have the same."""
    settings.output.mkdir(parents=True, exist_ok=True)
    path = settings.output / "settings.json"
    check_same_settings(path, settings)
    path.write_text(settings.model_dump_json(indent=1), encoding="utf-8")


def _plot(log: Sequence[Progress], path: Path) -> None:
    """Training loss and held-out tau over optimiser steps, as PNG."""
    from matplotlib.figure import Figure  # a second to import; only a finished training pays for it

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    loss_axis = figure.add_subplot(1, 1, 1)
    loss_axis.plot([p.step for p in log], [p.loss for p in log], color="tab:blue", linewidth=1)
    loss_axis.set_xlabel("optimiser steps")
    loss_axis.set_ylabel("loss of step 0, nats", color="tab:blue")
    measured = [(p.step, p.held_out_tau) for p in log if p.held_out_tau is not None]
    tau_axis = loss_axis.twinx()
    tau_axis.plot([step for step, _ in measured], [tau for _, tau in measured], color="tab:red", marker="o")
    tau_axis.set_ylabel("held-out tau of a chain", color="tab:red")
    figure.savefig(path, dpi=120)

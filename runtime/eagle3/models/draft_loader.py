"""Builds a `Draft` from a directory in any EAGLE-3 format and ties it to the target that it was made for.

Invariant: a returned draft fits the target (feature width, vocabulary, embedding, tap layers), has every parameter
filled with finite values, and the target has been told which tap layers to return.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import torch

from eagle3.errors import DraftMismatchError
from eagle3.models.draft import Draft
from eagle3.models.draft_config import DraftConfig
from eagle3.models.draft_formats import DraftCheckpoint, read_draft
from eagle3.models.draft_keys import TAP_IDS_KEY, TapConvention
from eagle3.models.rope import inverse_frequencies
from eagle3.models.target import Target
from eagle3.models.target_loader import fill_parameters
from eagle3.models.unfilled import unfilled

_log = logging.getLogger(__name__)


def load_draft(
    path: Path, target: Target, *, dtype: torch.dtype = torch.float32, convention: TapConvention | None = None
) -> Draft:
    """Load a draft in `dtype` on the target's device, ready for inference, and set the target's taps.

    `convention` says how the tap ids of the files count; None takes the format's default.
    """
    return build_draft(read_draft(path, convention=convention), target, source=str(path), dtype=dtype)


def build_draft(
    checkpoint: DraftCheckpoint, target: Target, *, source: str, dtype: torch.dtype = torch.float32
) -> Draft:
    """The draft of a checkpoint in memory; `source` names it in errors."""
    problems = target_mismatches(checkpoint.config, target)
    if problems:
        raise DraftMismatchError(f"{source}: {problems[0]}")
    config = replace(checkpoint.config, tap_inputs=resolve_taps(checkpoint.config, target))
    if checkpoint.config.tap_inputs is None:
        _log.warning(
            "%s names no tap layers; using the default inputs of layers %s (%s)",
            source,
            ", ".join(map(str, config.tap_inputs or ())),
            TAP_IDS_KEY,
        )
    draft = unfilled(lambda: Draft(config))
    fill_parameters(draft, checkpoint.tensors, source=source, dtype=dtype)
    # Built on meta like the parameters, but filled from no file.
    draft.inv_freq = inverse_frequencies(config.rope, config.head_dim)
    draft.target_ids_V = checkpoint.target_ids_V.clone()
    draft.to(target.embed_tokens.weight.device).eval().requires_grad_(False)
    if not config.own_embedding:
        draft.share_embedding(target.embed_tokens)
    target.set_taps(config.tap_inputs or ())
    return draft


def resolve_taps(config: DraftConfig, target: Target) -> tuple[int, ...]:
    """Tap layers of the draft as inputs of layers: its own, else the target's defaults."""
    return config.tap_inputs if config.tap_inputs is not None else target.arch.default_tap_inputs()


def target_mismatches(config: DraftConfig, target: Target) -> list[str]:
    """Everything in which a draft does not fit a target, one sentence each; empty when it fits."""
    arch = target.arch
    problems: list[str] = []
    if config.target_hidden_size != arch.hidden_size:
        problems.append(
            f"the draft fuses features of width {config.target_hidden_size}, the target's are {arch.hidden_size} wide; "
            "take the draft that was trained for this target"
        )
    if config.vocab_size != arch.vocab_size:
        problems.append(
            f"the draft was made for a vocabulary of {config.vocab_size} tokens, the target has {arch.vocab_size}; "
            "take the draft that was trained for this target"
        )
    if not config.own_embedding and config.hidden_size != arch.hidden_size:
        problems.append(
            f"the draft is {config.hidden_size} wide and brings no embed_tokens.weight, and the target's embedding is "
            f"{arch.hidden_size} wide; a draft of another width needs its own embedding"
        )
    if config.tap_inputs is None:
        if config.num_taps != 3:
            problems.append(
                f"the draft fuses {config.num_taps} features but names no tap layers, and the default is three; "
                f"name them with {TAP_IDS_KEY}"
            )
        elif not 2 < arch.num_layers // 2 < arch.num_layers - 3:
            problems.append(
                f"the draft names no tap layers, and a target of {arch.num_layers} layers has no defaults; "
                f"name them with {TAP_IDS_KEY}"
            )
    problems += [
        f"tap layer {tap} (as input of a layer) does not exist in a target of {arch.num_layers} layers; "
        f"allowed: 0 to {arch.num_layers}"
        for tap in config.tap_inputs or ()
        if not 0 <= tap <= arch.num_layers
    ]
    return problems

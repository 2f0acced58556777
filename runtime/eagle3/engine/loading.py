"""Loads what a config names and puts a batched engine together. Every command and server starts here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3.cache.block_pool import BlockPool
from eagle3.cache.paged_cache import PagedCache
from eagle3.config.deployment import DeploymentConfig
from eagle3.config.engine import EngineSettings
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import Proposer
from eagle3.draft.suffix_drafter import SuffixDrafter
from eagle3.engine.batch import BatchEngine
from eagle3.engine.cycle import StepRunner
from eagle3.engine.memory import cache_slots
from eagle3.engine.policy import SpeculationPolicy
from eagle3.engine.scheduler import Scheduler
from eagle3.errors import ConfigError
from eagle3.models.attention import causal_attend
from eagle3.models.calibration_text import CALIBRATION_TEXT
from eagle3.models.draft import Draft
from eagle3.models.draft_loader import load_draft
from eagle3.models.embedded import draft_path, target_path
from eagle3.models.packed import Quantization, pack_linears
from eagle3.models.row_draft import RowDraft
from eagle3.models.row_layers import can_run
from eagle3.models.row_target import RowTarget
from eagle3.models.target import Target
from eagle3.models.target_loader import load_target
from eagle3.models.tokenizer import Tokenizer, load_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Models:
    """A target with its tokenizer and, unless it decodes plainly, its draft."""

    target: Target
    tokenizer: Tokenizer
    draft: Draft | None


def load_models(config: DeploymentConfig) -> Models:
    """Load what a config names; every file error is a WeightsError, every contradiction a ConfigError."""
    dtype: torch.dtype = getattr(torch, config.dtype)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    _check_device(config.device)
    where = target_path(config.target)
    target = load_target(where, dtype=dtype, device=config.device)
    tokenizer = load_tokenizer(where)
    draft: Draft | None = None
    if config.draft_in_use is not None:
        draft = load_draft(draft_path(config.draft_in_use), target, dtype=dtype)
    if config.quantize is None:
        for model in (target, draft):
            if model is not None:
                pack_linears(model)
    else:
        quantize_models(target, draft, tokenizer.encode(CALIBRATION_TEXT), config.quantize)
    return Models(target=target, tokenizer=tokenizer, draft=draft)


def quantize_models(
    target: Target, draft: Draft | None, token_ids: Sequence[int], quantization: Quantization = "int8"
) -> None:
    """Pack target and draft as int8 in place, calibrated on these tokens."""
    ids = torch.tensor([list(token_ids[: target.arch.max_position])], device=target.device)
    places = torch.arange(ids.shape[1], device=target.device)[None]
    features: list[Tensor] = []

    def run_target() -> None:
        output = target(ids, places, causal_attend)
        target.logits(output.hidden_BSH)
        features.append(output.taps_BSF)

    def run_draft() -> None:
        assert draft is not None
        # Each feature goes with the token after it.
        hidden = draft.fuse(features[0][:, :-1])
        draft.logits(draft(ids[:, 1:], hidden, places[:, :-1], causal_attend).normed_BSH)

    pack_linears(target, quantization, calibrate=run_target)
    if draft is not None:
        pack_linears(draft, quantization, calibrate=run_draft)


def build_engine(
    models: Models,
    *,
    settings: EngineSettings,
    shape: Speculation,
    max_running: int,
    policy: Callable[[StepRunner], SpeculationPolicy],
) -> BatchEngine:
    """A batched engine on these models; `policy` may measure with the runner before it decides anything."""
    drafters = shape.working_drafters(has_draft=models.draft is not None)
    target, draft = models.target, models.draft if "eagle3" in drafters else None
    arch, weight = target.arch, target.norm.weight
    bytes_per_slot = PagedCache.bytes_per_slot(
        num_layers=arch.num_layers, num_kv_heads=arch.num_kv_heads, head_dim=arch.head_dim, dtype=weight.dtype
    )
    if draft is not None:
        bytes_per_slot += PagedCache.bytes_per_slot(
            num_layers=1,
            num_kv_heads=draft.config.num_kv_heads,
            head_dim=draft.config.head_dim,
            dtype=draft.norm.weight.dtype,
        )
    reserved = shape.reserved_slots if drafters else 1
    slots = cache_slots(
        wanted=settings.cache_tokens,
        bytes_per_slot=bytes_per_slot,
        most_useful=max_running * (arch.max_position + reserved + settings.block_tokens),
        least_useful=reserved + 2 * settings.block_tokens,
        device=weight.device,
    )
    pool = BlockPool(slots // settings.block_tokens)
    num_slots = pool.num_blocks * settings.block_tokens
    cache = PagedCache(
        num_slots=num_slots,
        num_layers=arch.num_layers,
        num_kv_heads=arch.num_kv_heads,
        head_dim=arch.head_dim,
        dtype=weight.dtype,
        device=weight.device,
    )
    proposer = None if draft is None else Proposer(RowDraft(draft) if can_run(draft) else draft, num_slots)
    runner = StepRunner(RowTarget(target) if can_run(target) else target, cache, proposer)
    scheduler = Scheduler(
        pool, step_tokens=settings.step_tokens, max_running=max_running, prefix_reuse=settings.prefix_reuse
    )
    return BatchEngine(
        target,
        models.tokenizer,
        runner,
        pool,
        scheduler,
        policy(runner),
        block_tokens=settings.block_tokens,
        has_draft=draft is not None,
        suffix=SuffixDrafter(shape) if "suffix" in drafters else None,
        max_reserved_slots=reserved,
    )


def _check_device(name: str) -> None:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {name!r} cannot be used here: {reason}; use cpu") from error

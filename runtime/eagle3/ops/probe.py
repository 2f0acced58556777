"""Measures how well a draft predicts its target on a few rows of tokens, under several readings of its files.

Teacher-forced: draft input i pairs the target's feature of token i with token i + 1 and is right when its argmax,
as a target id, is the target's argmax after token i + 1. Knows no files, tokenizers or trees. Invariant: target and
draft are left as they were. B rows, S tokens a row, V vocabulary, D head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from eagle3.models.attention import causal_attend
from eagle3.models.draft import Draft
from eagle3.models.target import Target
from eagle3.models.unfilled import unfilled

_PROMPTS, _PROMPT_TOKENS, _CONTINUATION = 8, 8, 48


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeRows:
    """Tokens to measure on."""

    token_ids_BS: Tensor
    """int64; every row of the same length."""
    skip: int = 0
    """Leading tokens of each row that are context only: an arbitrary prompt is not text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One way to read a draft's files, relative to how they were read."""

    tap_shift: int = 0
    """Added to every tap layer: +1 if the ids were outputs of layers, -1 if they were wrongly taken for such."""
    norm_before_residual: bool = False
    """Toggle that flag."""
    feedback_normed: bool = False
    """Toggle that flag (`norm_output` of upstream configs)."""


def first_position_acceptance(target: Target, draft: Draft, token_ids_rows: Tensor, *, skip: int = 0) -> float:
    """Fraction of positions at which the draft's first token is the target's choice; taps of the draft's config."""
    rows = ProbeRows(token_ids_BS=token_ids_rows, skip=skip)
    return acceptances(target, draft, rows, [Reading()])[0][0]


def acceptances(
    target: Target, draft: Draft, rows: ProbeRows, readings: Sequence[Reading]
) -> list[tuple[float, float]]:
    """First- and second-position acceptance under each reading; NaN for taps that the target does not have."""
    base = draft.config.tap_inputs
    assert base is not None, "a loaded draft names its tap layers"
    depth = target.arch.num_layers
    wanted = sorted({tap + reading.tap_shift for reading in readings for tap in base} & set(range(depth + 1)))
    states, choices_BS = _run_target(target, wanted, rows.token_ids_BS)
    results: list[tuple[float, float]] = []
    for reading in readings:
        taps = [tap + reading.tap_shift for tap in base]
        if not set(taps) <= set(states):
            results.append((float("nan"), float("nan")))
            continue
        taps_BSF = torch.cat([states[tap] for tap in taps], dim=-1)
        results.append(_accept(_as_read(draft, reading), taps_BSF, choices_BS, rows))
    return results


@torch.inference_mode()
def greedy_rows(target: Target, *, prompts: int = _PROMPTS, length: int = _CONTINUATION, seed: int = 0) -> ProbeRows:
    """The target's own greedy continuation of arbitrary short prompts: text to probe on without a tokenizer."""
    generator = torch.Generator().manual_seed(seed)
    device = target.embed_tokens.weight.device
    ids = torch.randint(target.arch.vocab_size, (prompts, _PROMPT_TOKENS), generator=generator).to(device)
    attend, rows = _GrowingAttend(), ids
    for _ in range(length):
        start = rows.shape[1] - ids.shape[1]
        positions = torch.arange(start, rows.shape[1], device=device).expand(prompts, -1)
        hidden = target(ids, positions, attend).hidden_BSH[:, -1:]
        ids = target.logits(hidden).argmax(-1)
        rows = torch.cat([rows, ids], dim=1)
    return ProbeRows(token_ids_BS=rows.clone(), skip=_PROMPT_TOKENS)


class _GrowingAttend:
    """Keeps all keys and values of each layer; the first call sees a prompt, later calls one token."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, layer: int, query_BHSD: Tensor, key_BGSD: Tensor, value_BGSD: Tensor) -> Tensor:
        if layer not in self._cache:
            self._cache[layer] = (key_BGSD, value_BGSD)
            return causal_attend(layer, query_BHSD, key_BGSD, value_BGSD)
        old_keys, old_values = self._cache[layer]
        keys, values = torch.cat([old_keys, key_BGSD], dim=2), torch.cat([old_values, value_BGSD], dim=2)
        self._cache[layer] = (keys, values)
        return F.scaled_dot_product_attention(query_BHSD, keys, values, enable_gqa=True)


class _ChainAttend:
    """First call: causal over true features. Second: query t sees the true keys up to t and its own."""

    def __init__(self) -> None:
        self._first: tuple[Tensor, Tensor] | None = None

    def __call__(self, layer: int, query_BHSD: Tensor, key_BGSD: Tensor, value_BGSD: Tensor) -> Tensor:
        if self._first is None:
            self._first = (key_BGSD, value_BGSD)
            return causal_attend(layer, query_BHSD, key_BGSD, value_BGSD)
        steps, seen = query_BHSD.shape[2], self._first[0].shape[2]
        keys = torch.cat([self._first[0], key_BGSD], dim=2)
        values = torch.cat([self._first[1], value_BGSD], dim=2)
        query, key = torch.arange(steps)[:, None], torch.arange(seen + steps)[None, :]
        mask = ((key < seen) & (key <= query)) | (key - seen == query)
        return F.scaled_dot_product_attention(
            query_BHSD, keys, values, attn_mask=mask.to(query_BHSD.device), enable_gqa=True
        )


@torch.inference_mode()
def _run_target(target: Target, taps: Sequence[int], token_ids_BS: Tensor) -> tuple[dict[int, Tensor], Tensor]:
    """Residual stream at the input of each layer of `taps`, and the target's argmax after every token."""
    token_ids_BS = token_ids_BS.to(target.embed_tokens.weight.device)
    before = target.tap_inputs
    target.set_taps(taps)
    try:
        out = target(token_ids_BS, _positions(token_ids_BS), causal_attend)
    finally:
        target.set_taps(before)
    parts = out.taps_BSF.split(target.arch.hidden_size, dim=-1)
    return dict(zip(taps, parts, strict=False)), target.logits(out.hidden_BSH).argmax(-1)


@torch.inference_mode()
def _accept(draft: Draft, taps_BSF: Tensor, choices_BS: Tensor, rows: ProbeRows) -> tuple[float, float]:
    tokens_BS = rows.token_ids_BS.to(choices_BS.device)
    attend = _ChainAttend()
    # Input i holds feature i, token i + 1 and predicts what the target chose after token i + 1.
    inputs_BS = tokens_BS[:, 1:]
    first = draft(inputs_BS, draft.fuse(taps_BSF[:, :-1]), _positions(inputs_BS), attend)
    # Chain step i holds the draft's own state of input i, token i + 2, at position i + 1.
    chain_BS = tokens_BS[:, 2:]
    second = draft(chain_BS, first.feedback_BSH[:, :-1], _positions(chain_BS) + 1, attend)
    scores = []
    for offset, out in ((1, first), (2, second)):
        guesses = draft.target_ids_V[draft.logits(out.normed_BSH).argmax(-1)]
        hits = (guesses == choices_BS[:, offset:])[:, max(0, rows.skip - 1) :]
        scores.append(float(hits.float().mean()))
    return scores[0], scores[1]


def _as_read(draft: Draft, reading: Reading) -> Draft:
    """The draft with flags toggled, sharing its weights."""
    old = draft.config
    config = replace(
        old,
        norm_before_residual=old.norm_before_residual != reading.norm_before_residual,
        feedback_normed=old.feedback_normed != reading.feedback_normed,
    )
    other = unfilled(lambda: Draft(config))
    other.load_state_dict(draft.state_dict(), assign=True)
    other.inv_freq, other.target_ids_V = draft.inv_freq, draft.target_ids_V
    other.share_embedding(draft.embedding)
    return other.eval()


def _positions(token_ids_BS: Tensor) -> Tensor:
    return torch.arange(token_ids_BS.shape[1], device=token_ids_BS.device).expand(token_ids_BS.shape[0], -1)

"""What can be told wrong about a draft from its files alone, or from them and a target's shape.

Knows no probing. Every check returns findings and raises nothing, so that one fault does not hide the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from eagle3.errors import Eagle3Error
from eagle3.models.checkpoint import read_config, read_tensors
from eagle3.models.draft_config import DraftConfig
from eagle3.models.draft_config_read import parse_draft_config
from eagle3.models.draft_formats import draft_format_of, parameter_shapes, split_tensors
from eagle3.models.draft_keys import DEFAULT_CONVENTION, TAP_IDS_KEY, DraftFormat, TapConvention
from eagle3.models.draft_loader import target_mismatches
from eagle3.models.draft_vocabulary import mapping_problems
from eagle3.models.target import Target

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is wrong or worth knowing."""

    severity: Severity
    """`error`: do not serve; `warning`: look at it; `note`: as read."""
    what: str
    """What is the case."""
    remedy: str = ""
    """What to do about it, empty for a note."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftFiles:
    """As much of a draft directory as could be read."""

    findings: tuple[Finding, ...]
    """What went wrong or was decided while reading."""
    config: DraftConfig | None
    """None when config.json is missing, malformed or unsupported."""
    tensors: Mapping[str, Tensor]
    """Empty when the weights could not be read."""


def check_files(path: Path, convention: TapConvention | None) -> DraftFiles:
    """Read a draft directory and check it in itself: config, tensors, mapping."""
    findings: list[Finding] = []
    raw, named = _read(path, findings)
    try:
        tensors, offsets_V, members_T = split_tensors(named)
    except Eagle3Error as error:
        findings.append(Finding(severity="error", what=str(error), remedy="keep one tensor of each name"))
        tensors, offsets_V, members_T = {}, None, None
    config = None
    if raw is not None:
        draft_format = draft_format_of(raw, tensors, offsets_V, members_T)
        counted = convention or DEFAULT_CONVENTION[draft_format]
        findings += _reading_notes(raw, draft_format, counted)
        try:
            config, extra = parse_draft_config(raw, tensors, draft_format, counted)
        except Eagle3Error as error:
            findings.append(Finding(severity="error", what=str(error), remedy="fix config.json or take another draft"))
        else:
            findings += _norm_notes(raw, extra)
    findings += [
        Finding(severity="error", what=f"{name} holds NaN or infinite values", remedy="download the draft again")
        for name, value in tensors.items()
        if value.dtype.is_floating_point and not bool(torch.isfinite(value).all())
    ]
    if config is not None and tensors:
        findings += _tensor_findings(config, tensors)
        findings += [
            Finding(severity="error", what=problem, remedy="store d2t as int64 offsets, target id = draft id + d2t")
            for problem in mapping_problems(offsets_V, members_T, config.draft_vocab_size, config.vocab_size)
        ]
    return DraftFiles(findings=tuple(findings), config=config, tensors=tensors)


def check_fit(files: DraftFiles, target: Target) -> list[Finding]:
    """Findings about a draft and its target: widths, vocabulary, taps, rotary base, embedding."""
    config = files.config
    if config is None:
        return []
    findings = [
        Finding(severity="error", what=problem, remedy="take the draft of this target or fix its config.json")
        for problem in target_mismatches(config, target)
    ]
    if config.tap_inputs is None and not findings:
        taps = ", ".join(map(str, target.arch.default_tap_inputs()))
        findings.append(
            Finding(
                severity="warning",
                what=f"the config names no tap layers; the default inputs of layers {taps} are used",
                remedy=f"write {TAP_IDS_KEY} into the config, so that every engine reads the same layers",
            )
        )
    if config.rope.theta != target.arch.rope.theta:
        findings.append(
            Finding(
                severity="note",
                what=f"the draft's rope_theta is {config.rope.theta:g}, the target's {target.arch.rope.theta:g}; right "
                "only if the draft was trained with its own",
            )
        )
    return findings + _embedding_findings(files.tensors, target)


def _read(path: Path, findings: list[Finding]) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    raw: dict[str, Any] | None = None
    named: dict[str, Tensor] = {}
    try:
        raw = read_config(path)
    except Eagle3Error as error:
        findings.append(Finding(severity="error", what=str(error), remedy="download config.json again"))
    try:
        named = read_tensors(path)
    except Eagle3Error as error:
        findings.append(Finding(severity="error", what=str(error), remedy="download the weights again"))
    return raw, named


def _reading_notes(raw: Mapping[str, Any], draft_format: DraftFormat, convention: TapConvention) -> list[Finding]:
    notes = [Finding(severity="note", what=f"read as {draft_format} format, tap ids as {convention}s of layers")]
    inner = raw.get("eagle_config")
    nested = bool(inner.get(TAP_IDS_KEY)) if isinstance(inner, Mapping) else False
    if draft_format == "original" and nested and convention == "input" and not raw.get(TAP_IDS_KEY):
        notes.append(
            Finding(
                severity="warning",
                what=f"{TAP_IDS_KEY} stands inside eagle_config, where SpecForge and SGLang count outputs of layers; "
                "it was read as inputs of layers",
                remedy="if SpecForge wrote this draft, read it with the output convention",
            )
        )
    return notes


def _norm_notes(raw: Mapping[str, Any], extra: Mapping[str, Any]) -> list[Finding]:
    if extra.get("norm_output"):
        meaning = "the final norm stands before the head (SpecForge's meaning); the hidden state is fed back unnormed"
    elif raw.get("norm_output"):
        meaning = "the hidden state is fed back after the final norm (vLLM's meaning)"
    else:
        return []
    return [Finding(severity="note", what=f"norm_output is true and was read as: {meaning}")]


def _tensor_findings(config: DraftConfig, tensors: Mapping[str, Tensor]) -> list[Finding]:
    wanted = parameter_shapes(config)
    findings = [
        Finding(severity="error", what=f"the weights lack {name}", remedy="export the draft again with every tensor")
        for name in sorted(set(wanted) - set(tensors))
    ]
    hints = {"input_norm.weight": "set norm_before_fc to true", "fc_norm": "set fc_norm to true"}
    for name in sorted(set(tensors) - set(wanted)):
        remedy = next(
            (hint for prefix, hint in hints.items() if name.startswith(prefix)), "remove it, or name its flag"
        )
        findings.append(Finding(severity="error", what=f"the config does not use the tensor {name}", remedy=remedy))
    for name in sorted(set(tensors) & set(wanted)):
        if tensors[name].shape != wanted[name]:
            what = f"{name} has shape {list(tensors[name].shape)}; the config asks for {list(wanted[name])}"
            findings.append(Finding(severity="error", what=what, remedy="make config.json and weights of one draft"))
    return findings


def _embedding_findings(tensors: Mapping[str, Tensor], target: Target) -> list[Finding]:
    own = tensors.get("embed_tokens.weight")
    theirs = target.embed_tokens.weight.detach().cpu()
    if own is None:
        return [Finding(severity="note", what="no embedding in the draft; the target's is shared")]
    if own.shape != theirs.shape:
        return [Finding(severity="note", what=f"the draft brings its own embedding, {list(own.shape)}")]
    if torch.equal(own.to(theirs.dtype), theirs):
        return [Finding(severity="note", what="the draft's embedding is bit-equal to the target's")]
    likeness = float(torch.nn.functional.cosine_similarity(own.float(), theirs.float(), dim=-1).mean())
    what = f"the draft's embedding differs from the target's (mean cosine {likeness:.2f})"
    remedy = "remove embed_tokens.weight, so that the target's is shared, unless it was trained"
    return [Finding(severity="error" if likeness < 0.5 else "warning", what=what, remedy=remedy)]

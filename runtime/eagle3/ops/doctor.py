"""Says in plain words whether a draft will work with a target: files first, then, as files cannot tell, by trial.

Three readings that no file states: whether tap ids count inputs or outputs of layers, `norm_before_residual`, and
which of its two meanings `norm_output` has. A wrong one loads without complaint and costs most of the speed-up
(first-position acceptance of 10 % instead of 45 %, sglang 25454), so the doctor measures each. Invariant:
`Diagnosis.ok` is False exactly when a finding is an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from eagle3.errors import Eagle3Error, InvalidInputError
from eagle3.models.draft import Draft
from eagle3.models.draft_keys import TapConvention
from eagle3.models.draft_loader import load_draft
from eagle3.models.target import Target
from eagle3.models.target_loader import load_target
from eagle3.ops.draft_checks import Finding, Severity, check_files, check_fit
from eagle3.ops.probe import ProbeRows, Reading, acceptances, greedy_rows

# Another reading is the right one when it accepts more than _FACTOR times plus _MARGIN: above the noise of a few
# hundred positions.
_FACTOR, _MARGIN = 1.3, 0.03
# Neighbouring layers of a small target differ little: a draft read one layer off may lose a tenth only.
_WARN_FACTOR, _WARN_MARGIN = 1.05, 0.015
_USELESS = 0.05
# Feature 0 with token 1 predicts token 2; its own state with token 2 predicts token 3.
_MIN_TOKENS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What the doctor found, gravest first."""

    findings: tuple[Finding, ...]
    """Errors, then warnings, then notes."""
    first_acceptance: dict[str, float] = field(default_factory=dict)
    """First-position acceptance by reading, `as read` among them; empty when the draft was not probed."""
    second_acceptance: dict[str, float] = field(default_factory=dict)
    """Second-position acceptance by reading of `norm_output`."""

    @property
    def ok(self) -> bool:
        """Whether the draft can be served: no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)


def diagnose(
    target: Path | Target,
    draft: Path,
    *,
    probe_rows: Tensor | None = None,
    probe: bool = True,
    convention: TapConvention | None = None,
) -> Diagnosis:
    """Examine the draft directory `draft` for `target`.

    `probe_rows` (int64 [B, S], at least 4 tokens a row) are tokens of real text to measure on; without them the
    target continues arbitrary prompts. `convention` overrides how the tap ids are read.
    """
    if probe_rows is not None and (probe_rows.dim() != 2 or probe_rows.shape[1] < _MIN_TOKENS):
        raise InvalidInputError(
            f"probe rows must be a matrix of at least {_MIN_TOKENS} tokens a row; got shape {list(probe_rows.shape)}"
        )
    files = check_files(draft, convention)
    findings = list(files.findings)
    if isinstance(target, Path):
        try:
            target = load_target(target)
        except Eagle3Error as error:
            findings.append(_finding("error", f"the target cannot be loaded: {error}", "give a target that loads"))
            return _diagnosis(findings)
    findings += check_fit(files, target)
    if not probe or any(finding.severity == "error" for finding in findings):
        findings.append(_finding("note", "acceptance was not measured" + (" because of the errors" if probe else "")))
        return _diagnosis(findings)
    before = target.tap_inputs
    try:
        loaded = load_draft(draft, target, convention=convention)
        rows = greedy_rows(target) if probe_rows is None else ProbeRows(token_ids_BS=probe_rows)
        return _probe(target, loaded, rows, findings)
    except Eagle3Error as error:
        return _diagnosis([*findings, _finding("error", str(error), "fix what the message names")])
    finally:
        target.set_taps(before)


def _probe(target: Target, draft: Draft, rows: ProbeRows, findings: list[Finding]) -> Diagnosis:
    readings = {
        _describe(shift, toggled, draft): Reading(tap_shift=shift, norm_before_residual=toggled)
        for toggled in (False, True)
        for shift in (0, 1, -1)
    }
    as_read = next(iter(readings))
    measured = acceptances(target, draft, rows, list(readings.values()))
    first = {name: pair[0] for name, pair in zip(readings, measured, strict=True) if not math.isnan(pair[0])}
    best = max(first, key=lambda name: first[name])
    percent = f"{first[as_read]:.0%}"
    if first[best] < _USELESS:
        what = (
            f"the draft loads but is useless: its first token is right {percent} of the time, {first[best]:.0%} at best"
        )
        remedy = "take a draft that was trained for this target, or train one"
        return _diagnosis([*findings, _finding("error", what, remedy)], first)
    if _clearly_better(first[best], first[as_read]):
        what = (
            f"the draft's files were read wrongly: its first token is right {percent} of the time, "
            f"but {first[best]:.0%} with {best}"
        )
        return _diagnosis([*findings, _finding("error", what, _remedy(readings[best], draft))], first)
    if _better(first[best], first[as_read]):
        what = f"the draft's first token is right {percent} of the time, and {first[best]:.0%} with {best}"
        findings = [*findings, _finding("warning", what, _remedy(readings[best], draft))]
    else:
        what = f"the draft's first token is right {percent} of the time, best of all readings"
        findings = [*findings, _finding("note", what)]

    (_, second), (_, toggled) = acceptances(target, draft, rows, [Reading(), Reading(feedback_normed=True)])
    other = f"norm_output {'unset' if draft.config.feedback_normed else 'feeding back after the norm'}"
    if _clearly_better(toggled, second):
        what = f"norm_output was read wrongly: the draft's second token is right {second:.0%} of the time, but"
        findings.append(
            _finding(
                "error",
                f"{what} {toggled:.0%} with {other}",
                f"set norm_output to {str(not draft.config.feedback_normed).lower()} in the draft's config",
            )
        )
    return _diagnosis(findings, first, {as_read: second, other: toggled})


def _clearly_better(best: float, configured: float) -> bool:
    return best > _FACTOR * configured + _MARGIN


def _better(best: float, configured: float) -> bool:
    """A difference that is more than noise on a thousand positions, but leaves the draft of use."""
    return best > _WARN_FACTOR * configured + _WARN_MARGIN


def _describe(shift: int, toggled: bool, draft: Draft) -> str:
    parts = []
    if shift:
        parts.append(f"tap ids counted as {'outputs' if shift > 0 else 'inputs'} of layers (taps {shift:+d})")
    if toggled:
        parts.append(f"norm_before_residual {str(not draft.config.norm_before_residual).lower()}")
    return " and ".join(parts) or "as read"


def _remedy(reading: Reading, draft: Draft) -> str:
    taps = [tap + reading.tap_shift for tap in draft.config.tap_inputs or ()]
    steps = []
    if reading.tap_shift:
        counted = "output" if reading.tap_shift > 0 else "input"
        steps.append(f"convert the draft with the {counted} convention, so that it taps the inputs of layers {taps}")
    if reading.norm_before_residual:
        steps.append(f"set norm_before_residual to {str(not draft.config.norm_before_residual).lower()} in config.json")
    return " and ".join(steps)


def _finding(severity: Severity, what: str, remedy: str = "") -> Finding:
    return Finding(severity=severity, what=what, remedy=remedy)


def _diagnosis(
    findings: list[Finding], first: dict[str, float] | None = None, second: dict[str, float] | None = None
) -> Diagnosis:
    order = ("error", "warning", "note")
    return Diagnosis(
        findings=tuple(sorted(findings, key=lambda finding: order.index(finding.severity))),
        first_acceptance=first or {},
        second_acceptance=second or {},
    )

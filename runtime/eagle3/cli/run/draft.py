"""Runs `eagle3 draft inspect`, `convert` and `doctor`."""

from __future__ import annotations

import argparse
import json

import torch

from eagle3.cli.run.generate import encode
from eagle3.models.embedded import draft_path, target_path
from eagle3.models.target import Target
from eagle3.models.target_loader import load_target
from eagle3.models.tokenizer import Tokenizer, load_tokenizer
from eagle3.ops.doctor import Diagnosis, diagnose
from eagle3.ops.inspect import convert as convert_draft
from eagle3.ops.inspect import describe
from eagle3.train.generate import generate_batch

_PROBE_PROMPTS = (
    "Explain how rain forms.",
    "Write a short story about a lighthouse keeper.",
    "List five ways to save energy at home.",
    "Write a Python function that adds two numbers.",
    "What is the capital of France, and what is it known for?",
    "Give me a simple recipe for pancakes.",
    "Why do people need sleep?",
    "Describe a busy train station.",
)
_PROBE_TOKENS = 96


def inspect(args: argparse.Namespace) -> int:
    """Print what a draft holds."""
    print(json.dumps(describe(draft_path(args.draft), convention=args.convention), indent=2))
    return 0


def convert(args: argparse.Namespace) -> int:
    """Write the draft anew; prints where."""
    convert_draft(draft_path(args.draft), args.destination, args.format, convention=args.convention)
    print(args.destination)
    return 0


def doctor(args: argparse.Namespace) -> int:
    """Print what was found; exits with 1 if the draft is useless."""
    where = target_path(args.target)
    target = load_target(where)
    rows = None if args.no_probe else _probe_rows(target, load_tokenizer(where))
    diagnosis = diagnose(
        target, draft_path(args.draft), probe_rows=rows, probe=not args.no_probe, convention=args.convention
    )
    print(json.dumps(_as_json(diagnosis), indent=2) if args.json else _as_text(diagnosis))
    return 0 if diagnosis.ok else 1


@torch.inference_mode()
def _probe_rows(target: Target, tokenizer: Tokenizer) -> torch.Tensor:
    """The target's own greedy answers to a few prompts, cut to one length; int64 [rows, tokens]."""
    prompts = [encode(tokenizer, text, raw=False, system=None) for text in _PROBE_PROMPTS]
    answers = generate_batch(
        target,
        prompts,
        max_new_tokens=_PROBE_TOKENS,
        stop_ids=frozenset(),
        temperatures=[0.0] * len(prompts),
        generator=torch.Generator(),
    )
    rows = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
    shortest = min(len(row) for row in rows)
    return torch.tensor([row[-shortest:] for row in rows])


def _as_json(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "ok": diagnosis.ok,
        "first_position_acceptance": diagnosis.first_acceptance,
        "second_position_acceptance": diagnosis.second_acceptance,
        "findings": [
            {"severity": finding.severity, "what": finding.what, "remedy": finding.remedy}
            for finding in diagnosis.findings
        ],
    }


def _as_text(diagnosis: Diagnosis) -> str:
    lines = [
        f"{finding.severity}: {finding.what}" + (f"\n    {finding.remedy}" if finding.remedy else "")
        for finding in diagnosis.findings
    ]
    for place, measured in (("first", diagnosis.first_acceptance), ("second", diagnosis.second_acceptance)):
        lines += [f"{place}-position acceptance, {reading}: {share:.1%}" for reading, share in measured.items()]
    lines.append("the draft is usable" if diagnosis.ok else "the draft is not usable as it is")
    return "\n".join(lines)

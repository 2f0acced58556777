"""`eagle3 draft`: look into a draft, convert it between formats, find out what is wrong with it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from eagle3.cli.generate import encode
from eagle3.config.deployment import EMBEDDED
from eagle3.models.draft_keys import DRAFT_FORMATS
from eagle3.models.embedded import draft_path, target_path
from eagle3.models.target import Target
from eagle3.models.target_loader import load_target
from eagle3.models.tokenizer import Tokenizer, load_tokenizer
from eagle3.ops.doctor import Diagnosis, diagnose
from eagle3.ops.inspect import convert, describe
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
_CONVENTIONS = ("input", "output")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the commands."""
    draft = commands.add_parser("draft", help="inspect, convert and check drafts", description=__doc__)
    kinds = draft.add_subparsers(dest="kind", required=True, metavar="KIND")

    inspect = kinds.add_parser("inspect", help="format, flags, tensors and vocabulary of a draft, as JSON")
    inspect.add_argument("draft", nargs="?", default=EMBEDDED, metavar="PATH", help="directory (default: the shipped)")
    _add_convention(inspect)
    inspect.set_defaults(run=_inspect)

    converting = kinds.add_parser("convert", help="write a draft in another format, without loss")
    converting.add_argument("draft", metavar="SOURCE", help="draft directory")
    converting.add_argument("destination", type=Path, metavar="DESTINATION", help="new or empty directory")
    converting.add_argument("--format", choices=DRAFT_FORMATS, required=True, help="format to write")
    _add_convention(converting)
    converting.set_defaults(run=_convert)

    doctor = kinds.add_parser("doctor", help="what is wrong with a draft, in plain words; exits 1 if it is useless")
    doctor.add_argument("--target", default=EMBEDDED, metavar="PATH", help="target model (default: %(default)s)")
    doctor.add_argument("--draft", default=EMBEDDED, metavar="PATH", help="draft directory (default: %(default)s)")
    doctor.add_argument("--no-probe", action="store_true", help="look at the files only, do not run the models")
    doctor.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_convention(doctor)
    doctor.set_defaults(run=_doctor)


def _add_convention(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--taps", dest="convention", choices=_CONVENTIONS,
        help="what tap layer ids count: inputs or outputs of layers (default: what the format says)",
    )  # fmt: skip


def _inspect(args: argparse.Namespace) -> int:
    print(json.dumps(describe(draft_path(args.draft), convention=args.convention), indent=2))
    return 0


def _convert(args: argparse.Namespace) -> int:
    convert(draft_path(args.draft), args.destination, args.format, convention=args.convention)
    print(args.destination)
    return 0


def _doctor(args: argparse.Namespace) -> int:
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

"""`eagle3 data build`: make training data for a draft from conversations, prompts, or nothing but the target."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.config.embedded import EMBEDDED


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    data = commands.add_parser("data", help="make training data", description=__doc__)
    kinds = data.add_subparsers(dest="kind", required=True, metavar="KIND")
    parser = kinds.add_parser("build", help="prompts, answered by the target, with the target's features")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="data folder; a killed build goes on")
    parser.add_argument("--target", default=EMBEDDED, metavar="PATH", help="model (default: %(default)s)")
    parser.add_argument(
        "--input", dest="inputs", action="append", type=Path, metavar="FILE",
        help="JSONL of ShareGPT, messages or prompt rows; may be repeated",
    )  # fmt: skip
    parser.add_argument("--invent", type=int, metavar="N", help="prompts to invent besides (default: 0)")
    parser.add_argument("--from-target", type=float, metavar="SHARE", help="written by the target (default: 0.35)")
    parser.add_argument("--keep-answers", action="store_true", default=None, help="train on the data's own answers")
    parser.add_argument("--sampled-share", type=float, metavar="SHARE", help="answers not greedy (default: 0.15)")
    parser.add_argument("--temperature", type=float, metavar="T", help="temperature of those (default: 0.7)")
    parser.add_argument("--max-new-tokens", type=int, metavar="N", help="tokens of an answer at most (default: 128)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="answers side by side (default: 128)")
    parser.add_argument(
        "--tap", dest="tap_inputs", action="append", type=int, metavar="LAYER", help="tap layer, by input"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="(default: 0)")
    parser.set_defaults(run=Deferred("eagle3.cli.run.data:build"))

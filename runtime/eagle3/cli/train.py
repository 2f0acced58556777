"""`eagle3 train`: train a draft on a data folder, export it in the original EAGLE-3 format, draw its loss."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.config.embedded import EMBEDDED


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser("train", help="train a draft", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder made by `eagle3 data build`")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="where results go; resumes")
    parser.add_argument("--target", default=EMBEDDED, metavar="PATH", help="target model (default: %(default)s)")
    parser.add_argument("--initial-draft", type=Path, metavar="DIR", help="go on from this draft, not from the target")
    parser.add_argument(
        "--stages", required=True, metavar="STEPSxTTT,…",
        help="optimiser steps and training-time-test steps of each stage, such as 1000x1,500x2,500x4",
    )  # fmt: skip
    parser.add_argument("--draft-vocab-size", type=int, metavar="N", help="tokens it can propose (default: 8192)")
    parser.add_argument("--held-out", type=int, metavar="N", help="rows kept for measuring tau (default: 100)")
    parser.add_argument("--learning-rate", type=float, metavar="RATE", help="peak (default: 1e-3)")
    parser.add_argument("--warmup-steps", type=int, metavar="N", help="linear warm-up (default: 100)")
    parser.add_argument("--feature-noise", type=float, metavar="SHARE", help="of each feature's size (default: 0.05)")
    parser.add_argument("--positions-per-batch", type=int, metavar="N", help="padded tokens a batch (default: 2048)")
    parser.add_argument("--step-decay", type=float, metavar="W", help="loss weight of step s is W**s (default: 0.8)")
    parser.add_argument("--eval-every", type=int, metavar="N", help="optimiser steps (default: 200)")
    parser.add_argument("--checkpoint-every", type=int, metavar="N", help="optimiser steps (default: 100)")
    parser.add_argument("--no-bf16", dest="bf16", action="store_false", default=None, help="float32 matrix products")
    parser.add_argument("--seed", type=int, metavar="N", help="(default: 0)")
    parser.set_defaults(run=Deferred("eagle3.cli.run.train:run"))

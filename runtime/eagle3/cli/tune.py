"""`eagle3 tune`: the speculation that is fastest on this machine, with this target and draft."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.cli.options import add_model_flags


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    tune = commands.add_parser(
        "tune",
        help="find the tree that is fastest on this machine",
        description="Measure what passes of target and draft cost here, record what the drafters guess along the "
        "target's own answers, predict the speed of thousands of shapes, and really decode with the best three beside "
        "plain decoding. Prints a table and the winning settings, which --config reads.",
    )
    tune.add_argument(
        "--prompts", type=Path, metavar="FILE", help="JSONL file of prompts (default: 16 questions built in)"
    )
    tune.add_argument("--limit", type=int, default=8, metavar="N", help="first N prompts only (default: 8)")
    tune.add_argument("--max-new-tokens", type=int, default=96, metavar="N", help="of an answer (default: 96)")
    tune.add_argument("--output", type=Path, metavar="FILE", help="YAML file for the winning settings")
    tune.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    add_model_flags(tune)
    tune.set_defaults(run=Deferred("eagle3.cli.run.tune:run"))

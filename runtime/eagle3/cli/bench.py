"""`eagle3 bench`: acceptance and speed on prompts, quality, servers under load, or us beside other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli import bench_peers, bench_serve
from eagle3.cli.deferred import Deferred
from eagle3.cli.options import add_model_flags, add_sampling_flags


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    bench = commands.add_parser("bench", help="measure acceptance and speed", description=__doc__)
    kinds = bench.add_subparsers(dest="kind", required=True, metavar="KIND")
    tau = kinds.add_parser("tau", help="acceptance length and time per cycle over first user turns")
    tau.add_argument("--prompts", type=Path, required=True, metavar="FILE", help="JSONL file of prompts")
    tau.add_argument("--limit", type=int, metavar="N", help="first N prompts only (default: all)")
    tau.add_argument("--plain", action="store_true", help="also decode plainly, compare token ids and time")
    tau.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    add_model_flags(tau)
    add_sampling_flags(tau)
    tau.set_defaults(run=Deferred("eagle3.cli.run.bench_tau:run"))
    quality = kinds.add_parser(
        "quality",
        help="what int8 costs in quality: perplexity and agreement with float32",
        description="Read the prompts with the float32 and the quantised target, under the chat template, and compare "
        "what they expect of every next token: perplexity, share of equal choices, mean Kullback-Leibler divergence.",
    )
    quality.add_argument("--prompts", type=Path, required=True, metavar="FILE", help="JSONL file of prompts")
    quality.add_argument("--limit", type=int, metavar="N", help="first N prompts only (default: all)")
    quality.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    add_model_flags(quality)
    quality.set_defaults(run=Deferred("eagle3.cli.run.bench_quality:run"))
    bench_serve.add_parser(kinds)
    bench_peers.add_parser(kinds)

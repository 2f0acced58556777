"""`eagle3 bench`: measure acceptance and speed on a file of prompts, or servers under load."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tqdm import tqdm

from eagle3.bench.tau import Comparison, compare, comparison_json, comparison_table
from eagle3.cli import bench_serve
from eagle3.cli.generate import read_prompts
from eagle3.cli.options import add_model_flags, add_sampling_flags, deployment_config, params_from, without_reuse
from eagle3.engine.llm import LLM
from eagle3.errors import ConfigError


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
    tau.set_defaults(run=run)
    bench_serve.add_parser(kinds)


def run(args: argparse.Namespace) -> int:
    """Measure, print, and exit with 1 if plain decoding was compared greedily and differed."""
    params = params_from(args)
    config = deployment_config(args)
    if config.draft is None:
        raise ConfigError("bench tau measures a draft; name one with --draft")
    prompts = read_prompts(args.prompts, args.limit)
    llm = LLM.from_config(without_reuse(config))
    conversations = [[{"role": "user", "content": prompt}] for prompt in prompts]
    with tqdm(total=len(prompts), unit="prompt", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def on_prompt(result: Comparison) -> None:
            bar.update()
            bar.set_postfix(tau=f"{result.speculative.tau:.2f}")

        result = compare(llm, conversations, params, with_plain=args.plain, on_prompt=on_prompt)
    if args.json:
        print(json.dumps(comparison_json(result)))
    else:
        print(comparison_table(result))
        if args.plain:
            print(f"  identical texts         {result.identical} of {result.prompts}")
    exact = args.plain and params.temperature == 0 and config.dtype == "float32"
    return 1 if exact and result.identical != result.prompts else 0

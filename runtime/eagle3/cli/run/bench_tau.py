"""Runs `eagle3 bench tau`: acceptance length and time per cycle over a file of prompts."""

from __future__ import annotations

import argparse
import json
import sys

from tqdm import tqdm

from eagle3.bench.tau import Comparison, compare, comparison_json, comparison_table
from eagle3.cli.run.generate import read_prompts
from eagle3.cli.run.settings import deployment_config, params_from, without_reuse
from eagle3.engine.llm import LLM
from eagle3.errors import ConfigError


def run(args: argparse.Namespace) -> int:
    """Measure, print, and exit with 1 if plain decoding was compared greedily and differed."""
    params = params_from(args)
    config = deployment_config(args)
    if not config.drafters:
        raise ConfigError("bench tau measures drafting; name a draft with --draft, or take --drafters suffix")
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

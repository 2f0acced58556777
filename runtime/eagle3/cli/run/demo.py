"""Runs `eagle3 demo`: one prompt answered with EAGLE-3 and plainly, the texts compared, both measured."""

from __future__ import annotations

import argparse
import sys

from eagle3.bench.tau import Comparison, comparison_table
from eagle3.cli.run.generate import stream_answer
from eagle3.cli.run.settings import deployment_config, without_reuse
from eagle3.engine.llm import LLM
from eagle3.errors import ConfigError
from eagle3.sampling.params import sampling_params


def run(args: argparse.Namespace) -> int:
    """Stream, compare, and exit with 1 if the two texts differ."""
    params = sampling_params(max_new_tokens=args.max_new_tokens)
    config = deployment_config(args)
    if not config.drafters:
        raise ConfigError(
            "demo compares drafting with plain decoding; name a draft with --draft, or take --drafters suffix"
        )
    print(
        "Loading the model …" if config.draft_in_use is None else "Loading the model and its EAGLE-3 draft …",
        file=sys.stderr,
    )
    llm = LLM.from_config(without_reuse(config))
    messages = [{"role": "user", "content": args.prompt}]
    # The first passes pay for memory that later ones reuse; neither side should pay for the other.
    llm.chat(messages, sampling_params(max_new_tokens=8))
    llm.chat(messages, sampling_params(max_new_tokens=8), speculate=False)

    print(f"\n> {args.prompt}\n")
    answer = stream_answer(llm, llm.tokenizer.encode_chat(messages), params)
    plain = llm.chat(messages, params, speculate=False)[0]
    result = Comparison()
    result.add(answer, plain)
    print(f"\n{comparison_table(result)}\n")
    if answer.token_ids != plain.token_ids:
        print("  MISMATCH: the texts differ at temperature 0; this is a bug, please report it")
        return 1
    print(
        f"  Both texts are identical at T = 0: checked, {len(plain.token_ids)} of {len(plain.token_ids)} tokens equal."
    )
    return 0

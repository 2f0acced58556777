"""`eagle3 demo`: the embedded model answers a prompt with EAGLE-3, then plainly, and both are compared."""

from __future__ import annotations

import argparse
import sys

from eagle3.bench.tau import Comparison, comparison_table
from eagle3.cli.generate import stream_answer
from eagle3.cli.options import add_model_flags, deployment_config, without_reuse
from eagle3.engine.llm import LLM
from eagle3.errors import ConfigError
from eagle3.sampling.params import sampling_params

_PROMPT = "Explain why the sky is blue."


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser("demo", help="see it work on the embedded model", description=__doc__)
    parser.add_argument("--prompt", default=_PROMPT, metavar="TEXT", help="what to ask (default: %(default)s)")
    parser.add_argument(
        "--max-new-tokens", type=int, default=128, metavar="N", help="tokens generated at most (default: %(default)s)"
    )
    add_model_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Stream, compare, and exit with 1 if the two texts differ."""
    params = sampling_params(max_new_tokens=args.max_new_tokens)
    config = deployment_config(args)
    if config.draft is None:
        raise ConfigError("demo compares a draft with plain decoding; name one with --draft")
    print("Loading the model and its EAGLE-3 draft …", file=sys.stderr)
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

"""`eagle3 bench peers`: our decoding beside that of other programs, on the same prompts and cores, in one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.cli.options import add_model_flags


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `bench peers`."""
    peers = kinds.add_parser(
        "peers",
        help="our speed beside Hugging Face, llama.cpp and vLLM",
        description="Decode the same prompts with every system, one process at a time and a fresh one for every "
        "turn, round after round. Prints Markdown tables with medians, their spread and ratios taken within rounds. "
        "Quick by default (4 prompts, 48 tokens, 2 rounds, within 5 minutes); --full takes 40 prompts, 128 tokens, "
        "3 rounds, at temperature 0 and 1. Exits with 1 if a system failed, or if ours gave another text with its "
        "draft than without.",
    )
    what = peers.add_argument_group("systems")
    what.add_argument(
        "--system", action="append", metavar="NAME",
        help="plain, speculative, int8-plain, int8-speculative (ours), llama.cpp-q4_1, llama.cpp-q8_0, "
        "llama.cpp-q4_1-lookup, hf-plain, hf-prompt-lookup, hf-assisted, hf-plain-bf16, vllm-plain, vllm-eagle3, "
        "vllm-plain-bf16 or vllm-eagle3-bf16; may be repeated (default: all that are installed, those in bfloat16 "
        "only with --full)",
    )  # fmt: skip
    what.add_argument(
        "--llama-python", type=Path, default=Path(".venv-llama/bin/python"), metavar="PATH",
        help="Python that has llama-cpp-python (default: .venv-llama/bin/python)",
    )  # fmt: skip
    what.add_argument(
        "--vllm-python", type=Path, default=Path(".venv-vllm/bin/python"), metavar="PATH",
        help="Python that has vLLM's CPU build (default: .venv-vllm/bin/python)",
    )  # fmt: skip
    what.add_argument(
        "--cache-dir", type=Path, metavar="DIR",
        help="keeps what is written once for them, about 700 MB (default: eagle3/bench in the user's cache folder)",
    )  # fmt: skip
    load = peers.add_argument_group("load")
    load.add_argument("--full", action="store_true", help="the long run: takes hours with all systems")
    load.add_argument(
        "--prompts", type=Path, action="append", metavar="FILE",
        help="JSONL file of prompts; may be repeated, each is a table of its own (default: 16 questions built in)",
    )  # fmt: skip
    load.add_argument("--limit", type=int, metavar="N", help="first N prompts of each file (default: 4; --full: 40)")
    load.add_argument("--max-new-tokens", type=int, metavar="N", help="of an answer (default: 48; --full: 128)")
    load.add_argument("--rounds", type=int, metavar="N", help="turns of each system (default: 2; --full: 3)")
    load.add_argument(
        "--temperature", type=float, action="append", metavar="T",
        help="may be repeated, each is a table of its own (default: 0; --full: 0 and 1)",
    )  # fmt: skip
    load.add_argument("--seed", type=int, default=0, metavar="N", help="of sampled text (default: 0)")
    load.add_argument(
        "--budget-s", type=float, metavar="S",
        help="seconds after which no turn begins; those left out are said (default: 255; --full: none)",
    )  # fmt: skip
    load.add_argument("--turn-timeout-s", type=float, default=3600.0, metavar="S", help="of one turn (default: 3600)")
    out = peers.add_argument_group("output")
    out.add_argument("--profile", action="store_true", help="also take our cycles apart, beside what bounds them")
    out.add_argument("--json", type=Path, metavar="FILE", help="write the results there, after every turn")
    out.add_argument("--chart", type=Path, metavar="FILE", help="write a PNG there")
    add_model_flags(peers)
    peers.set_defaults(run=Deferred("eagle3.cli.run.bench_peers:run"))

"""`eagle3 bench serve`: put load on servers beside each other and compare them."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.cli.options import add_model_flags

DEFAULT_DURATION_S = 20.0
_LEVELS = (1, 4, 16, 64)
_SYSTEMS = ("speculative", "plain", "vllm-speculative", "vllm")


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `bench serve`."""
    serve = kinds.add_parser(
        "serve",
        help="throughput and latency of servers under closed-loop load",
        description="Put the same load on servers beside each other. All of them run during the whole test, one at "
        "a time is under load, and every level of concurrency goes round all of them before the next begins. "
        "Prints a table; latencies are median / 99th percentile.",
    )
    what = serve.add_argument_group("systems")
    what.add_argument(
        "--system", action="append", choices=_SYSTEMS,
        help="what to start: `eagle3 serve` with and without its draft, vLLM itself with and without it; may be "
        "repeated (default: speculative and plain, vllm too if --vllm-executable is given, none beside --url)",
    )  # fmt: skip
    what.add_argument(
        "--url", action="append", default=[], metavar="NAME=URL", help="a running server; may be repeated"
    )
    what.add_argument("--vllm-executable", metavar="PATH", help="vLLM's command (default: vllm)")
    what.add_argument("--vllm-arguments", default="", metavar="TEXT", help="further arguments for it, as in a shell")
    what.add_argument("--api-key", metavar="KEY", help="sent to every system as a bearer token")
    what.add_argument("--start-timeout-s", type=float, default=600.0, metavar="S", help="to load (default: 600)")
    load = serve.add_argument_group("load")
    load.add_argument(
        "--concurrency", default=",".join(map(str, _LEVELS)), metavar="N,…", help="users (default: 1,4,16,64)"
    )
    load.add_argument("--prompts", type=Path, metavar="FILE", help="JSONL file of prompts (default: 16 built in)")
    load.add_argument("--limit", type=int, metavar="N", help="first N prompts only (default: all)")
    load.add_argument("--max-tokens", type=int, default=48, metavar="N", help="tokens of an answer (default: 48)")
    length = load.add_mutually_exclusive_group()
    length.add_argument(
        "--duration-s", type=float, metavar="S",
        help=f"seconds of each level in which requests begin (default: {DEFAULT_DURATION_S:.0f})",
    )  # fmt: skip
    length.add_argument("--requests", type=int, metavar="N", help="requests of each level, instead of a duration")
    load.add_argument(
        "--rounds", type=int, default=1, metavar="N",
        help="turns of each system at each level, in alternating order; answers are pooled (default: 1)",
    )  # fmt: skip
    load.add_argument(
        "--request-timeout-s", type=float, default=300.0, metavar="S",
        help="seconds without a byte after which a request has failed (default: 300)",
    )  # fmt: skip
    out = serve.add_argument_group("output")
    out.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    out.add_argument("--chart", type=Path, metavar="FILE", help="write a PNG there")
    add_model_flags(serve)
    serve.set_defaults(run=Deferred("eagle3.cli.run.bench_serve:run"))

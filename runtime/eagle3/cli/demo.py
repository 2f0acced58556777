"""`eagle3 demo`: the embedded model answers a prompt with EAGLE-3, then plainly, and both are compared."""

from __future__ import annotations

import argparse

from eagle3.cli.deferred import Deferred
from eagle3.cli.options import add_model_flags

_PROMPT = "Explain why the sky is blue."


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser("demo", help="see it work on the embedded model", description=__doc__)
    parser.add_argument("--prompt", default=_PROMPT, metavar="TEXT", help="what to ask (default: %(default)s)")
    parser.add_argument(
        "--max-new-tokens", type=int, default=128, metavar="N", help="tokens generated at most (default: %(default)s)"
    )
    add_model_flags(parser)
    parser.set_defaults(run=Deferred("eagle3.cli.run.demo:run"))

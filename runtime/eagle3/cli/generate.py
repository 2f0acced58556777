"""`eagle3 generate`: answer one prompt, or a file of prompts, on stdout."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.cli.options import add_model_flags, add_sampling_flags


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser("generate", help="answer prompts", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT", help="one prompt")
    source.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="JSONL rows with prompt, turns, messages or conversations",
    )
    parser.add_argument("--system", metavar="TEXT", help="system message (default: the chat template's)")
    parser.add_argument("--raw", action="store_true", help="continue the prompt as it is, without the chat template")
    parser.add_argument("--no-speculation", action="store_true", help="decode plainly, without the draft")
    parser.add_argument("--json", action="store_true", help="one JSON object per answer instead of streamed text")
    add_model_flags(parser)
    add_sampling_flags(parser)
    parser.set_defaults(run=Deferred("eagle3.cli.run.generate:run"))

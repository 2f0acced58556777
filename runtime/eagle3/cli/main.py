"""The `eagle3` command. Data goes to stdout, everything else to stderr; bad input exits with 2 and one line.

Every parser is built before anything is known of the command that is wanted, so `eagle3.cli.<command>` holds flags and
help alone and imports the standard library, `eagle3.errors` and constants. What runs the command is named with
`parser.set_defaults(run=Deferred("eagle3.cli.run.<command>:run"))`: `eagle3.cli.run` imports what it needs at the top
of its modules, and is imported after parsing. A command that only starts a process out of a checkout keeps its `run`
beside its flags. Invariant: help and refused flags import no library (`tests/unit/cli/test_startup.py`).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from eagle3.cli import ask, bench, cost, data, demo, draft, generate, rehearse, runbook, serve, train, tune
from eagle3.errors import Eagle3Error

_COMMANDS = (demo, generate, serve, ask, bench, tune, draft, data, train, rehearse, cost, runbook)


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command; each command module adds its own."""
    parser = argparse.ArgumentParser(
        prog="eagle3",
        description="EAGLE-3 speculative decoding: run it, serve it, measure it, train drafts for it, deploy it.",
    )
    parser.add_argument("--verbose", action="store_true", help="log at level INFO instead of WARNING")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    args = build_parser().parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO if args.verbose else logging.WARNING, format="%(levelname)s: %(message)s"
    )
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except Eagle3Error as error:
        print(f"eagle3: {' '.join(str(error).split())}", file=sys.stderr)  # some messages quote others of many lines
        return error.exit_code
    except KeyboardInterrupt:
        print("eagle3: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away (`eagle3 … | head`): not an error; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


if __name__ == "__main__":
    sys.exit(main())

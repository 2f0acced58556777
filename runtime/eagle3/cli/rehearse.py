"""`eagle3 rehearse`: deploy a stack on the real Terraform against a local AWS, without an account, and destroy it.

The infrastructure is no part of this package: the rehearsal is run out of a checkout, as a process of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.checkout import add_settings_options, find_project, run_in_checkout, settings_words

STACKS = ("small", "medium", "large", "bootstrap")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "rehearse",
        help="deploy a stack against a local AWS, without an account",
        description="Deploy a stack with the real Terraform against a local AWS, plan again, destroy it, and check "
        "that nothing is left. No AWS account is used or seen, and no file of the checkout is written. Needs a "
        "checkout of eagle3-kit, Terraform, Node.js, and the Python packages of eagle3-kit[infra].",
    )
    parser.add_argument("stack", choices=STACKS, metavar="STACK", help=f"one of {', '.join(STACKS)}")
    add_settings_options(parser)
    parser.add_argument(
        "--provider", choices=("auto", "real", "stand-in"), default="auto",
        help="AWS provider: the real one, the stand-in of this project, or (auto) the real one where Terraform can "
        "download it and the local AWS has all that the stack needs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--provider-mirror", type=Path, metavar="DIR",
        help="take the real provider from this folder, as `terraform providers mirror` lays it out",
    )  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="leave the synthesized stack, the state and the log behind")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument(
        "--timeout-s", type=float, default=1800.0, metavar="S", help="for the whole rehearsal (default: 1800)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the rehearsal in the checkout; its output and exit code are those of this command."""
    project = find_project(args.project, Path.cwd(), "rehearsal")
    return run_in_checkout(project, "rehearsal", _arguments(args))


def _arguments(args: argparse.Namespace) -> list[str]:
    words = [args.stack, "--provider", args.provider, "--timeout-s", f"{args.timeout_s:g}", *settings_words(args)]
    if args.provider_mirror is not None:
        words += ["--provider-mirror", str(args.provider_mirror.absolute())]
    return words + [flag for flag, given in (("--keep", args.keep), ("--json", args.json)) if given]

"""`eagle3 cost`: what a stack costs a month, from its settings and a dated price table, or from AWS's own prices.

The infrastructure is no part of this package: the estimate is made out of a checkout, by a process of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.checkout import add_settings_options, find_project, run_in_checkout, settings_words

STACKS = ("small", "medium", "large")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "cost",
        help="estimate what a stack costs a month",
        description="Estimate what a stack costs a month, line by line, from its settings and a dated table of public "
        "prices, and compare it with the published range. Needs a checkout of eagle3-kit and the Python packages of "
        "eagle3-kit[infra]; asks nobody and changes nothing unless --live reads AWS's prices.",
    )
    parser.add_argument("stack", choices=STACKS, metavar="STACK", help=f"one of {', '.join(STACKS)}")
    add_settings_options(parser)
    parser.add_argument(
        "--regions", metavar="R1,R2", help="compare these regions in columns (default: the settings' one)"
    )
    parser.add_argument(
        "--commitment", choices=("none", "1y", "3y"), default="none",
        help="Savings Plans without payment in advance for what is not spot (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--spot-share", type=float, metavar="SHARE", help="share of GPU hours bought as spot, 0 to 1 (default: 0.7)"
    )
    parser.add_argument(
        "--hours-per-day", type=float, default=24.0, metavar="H",
        help="hours a day that GPU machines run (default: 24)",
    )  # fmt: skip
    parser.add_argument(
        "--machines", type=int, metavar="N",
        help="GPU machines at once, in each pool (default: the endpoint's fewest, or all that the budget allows)",
    )  # fmt: skip
    parser.add_argument(
        "--tokens-per-second", type=float, metavar="N",
        help="measured output tokens per second of the whole deployment: adds USD for a million of them",
    )  # fmt: skip
    parser.add_argument("--live", action="store_true", help="ask AWS for prices, with the credentials that boto3 finds")
    parser.add_argument("--json", action="store_true", help="JSON with the source of each price, instead of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the estimate in the checkout; its output and exit code are those of this command."""
    return run_in_checkout(find_project(args.project, Path.cwd(), "estimate"), "estimate", _arguments(args))


def _arguments(args: argparse.Namespace) -> list[str]:
    words = [args.stack, *settings_words(args), "--commitment", args.commitment]
    words += [f"--hours-per-day={args.hours_per_day!r}"]
    values = {
        "--regions": args.regions,
        "--spot-share": args.spot_share,
        "--machines": args.machines,
        "--tokens-per-second": args.tokens_per_second,
    }
    words += [f"{flag}={value}" for flag, value in values.items() if value is not None]
    return words + [flag for flag, given in (("--live", args.live), ("--json", args.json)) if given]

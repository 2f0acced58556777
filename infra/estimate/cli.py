"""The command `python -m infra.estimate STACK`, which `eagle3 cost STACK` runs.

The estimate goes to stdout. Exit codes: 0 it was made, 2 bad input, a region without prices, or AWS refused `--live`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import get_args

import boto3
import botocore.exceptions

from eagle3.errors import ConfigError
from infra.command_end import finish
from infra.estimate import regions
from infra.estimate.assumptions import Assumptions, Commitment
from infra.estimate.book import Book, Table
from infra.estimate.comparison import compare
from infra.estimate.live import AskedPrices, Clients
from infra.estimate.report import Report
from infra.estimate.stack import STACKS, Question, estimate
from infra.estimate.tokens import usd_per_million_tokens
from infra.settings.load import load_settings


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(prog="eagle3 cost", description="Estimate what a stack costs a month.")
    parser.add_argument("stack", choices=STACKS, metavar="STACK", help=f"one of {', '.join(STACKS)}")
    parser.add_argument("--environment", metavar="NAME", help="settings to use")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override of a setting")
    parser.add_argument("--regions", metavar="R1,R2", help="compare these regions")
    parser.add_argument("--commitment", choices=get_args(Commitment), default="none", help="Savings Plans")
    parser.add_argument("--spot-share", type=float, metavar="SHARE", help="share of GPU hours bought as spot")
    parser.add_argument("--hours-per-day", type=float, default=24.0, metavar="H", help="hours that GPUs run")
    parser.add_argument("--machines", type=int, metavar="N", help="GPU machines at once")
    parser.add_argument("--tokens-per-second", type=float, metavar="N", help="throughput of the deployment")
    parser.add_argument("--live", action="store_true", help="ask AWS for prices")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str], today: date) -> int:
    """Print one estimate, or one for each region; returns the exit code."""
    args = build_parser().parse_args(argv)
    return finish(lambda: _estimated(args, environ, today))


def _estimated(args: argparse.Namespace, environ: Mapping[str, str], today: date) -> str:
    assumptions = _assumptions(args)
    book: Book = _asked() if args.live else Table()
    names = [None] if args.regions is None else _names(args.regions)
    reports = [_report(args, environ, today, assumptions, book, region) for region in names]
    if args.regions is None:
        [made] = reports
        return json.dumps(made.as_json()) if args.json else made.as_text()
    return json.dumps(regions.as_json(reports)) if args.json else regions.as_text(reports)


def _assumptions(args: argparse.Namespace) -> Assumptions:
    if not 0 < args.hours_per_day <= 24:
        raise ConfigError(f"--hours-per-day must be above 0 and at most 24; got {args.hours_per_day:g}")
    if args.spot_share is not None and not 0 <= args.spot_share <= 1:
        raise ConfigError(f"--spot-share must be 0 to 1; got {args.spot_share:g}")
    if args.machines is not None and args.machines < 1:
        raise ConfigError(f"--machines must be 1 at least; got {args.machines}")
    if args.tokens_per_second is not None and not 0 < args.tokens_per_second < float("inf"):
        raise ConfigError(f"--tokens-per-second must be a number above 0; got {args.tokens_per_second:g}")
    return Assumptions(
        hours_per_day=args.hours_per_day,
        machines=args.machines,
        spot_share=args.spot_share,
        commitment=args.commitment,
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"--regions must be different regions, such as us-east-1,eu-west-1; got {text!r}")
    return names


def _report(
    args: argparse.Namespace,
    environ: Mapping[str, str],
    today: date,
    assumptions: Assumptions,
    book: Book,
    region: str | None,
) -> Report:
    overrides = [environ.get("EAGLE3KIT_SET", ""), *args.set]
    if region is not None:
        overrides.append(f"region={region}")
    name = args.environment or environ.get("EAGLE3KIT_ENVIRONMENT", "dev")
    settings = load_settings(name, "\n".join(item for item in overrides if item))
    question = Question(stack=args.stack, settings=settings, assumptions=assumptions, today=today)
    made = estimate(question, book)
    open_share = question.can_spot
    per_million = None
    if args.tokens_per_second is not None:
        per_million = usd_per_million_tokens(made.usd, args.tokens_per_second, assumptions.hours)
    return Report(
        question=question,
        estimate=made,
        cheapest_usd=estimate(question.asking(spot_share=1.0), book).usd if open_share else made.usd,
        dearest_usd=estimate(question.asking(spot_share=0.0), book).usd if open_share else made.usd,
        comparison=compare(question, made.usd, book),
        tokens_per_second=args.tokens_per_second,
        usd_per_million_tokens=per_million,
        is_live=book.is_live if isinstance(book, AskedPrices) else lambda price: False,
    )


def _asked() -> AskedPrices:
    """Prices of the account that boto3 finds credentials of."""
    try:
        session = boto3.Session()
        clients = Clients(
            pricing=session.client("pricing", region_name="us-east-1"),
            savings_plans=session.client("savingsplans", region_name="us-east-1"),
            ec2=lambda region: session.client("ec2", region_name=region),
        )
    except botocore.exceptions.BotoCoreError as error:
        raise ConfigError(f"--live: no clients for AWS: {error}; set AWS_PROFILE right, or drop --live") from error
    return AskedPrices(clients, Table(), datetime.now(UTC))

"""The command `python -m infra.diagnosis`, which `eagle3 runbook` runs: list, show and diagnose.

Data goes to stdout, everything else to stderr. Exit codes: 0 it listed, showed or looked (causes found or not), 2 bad
input or no way to look at anything, 130 interrupted. Changes nothing anywhere.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from eagle3.errors import InvalidInputError
from infra.command_end import finish
from infra.diagnosis.aws_reader import AwsReader
from infra.diagnosis.collectors import COLLECTORS
from infra.diagnosis.diagnose import diagnose
from infra.diagnosis.evidence import ClusterAccess, Context, NotSeen
from infra.diagnosis.index import as_json, as_table
from infra.diagnosis.page import Page
from infra.diagnosis.request import (
    KEY_VARIABLE,
    account,
    alarm_named,
    nothing_to_look_at,
    server_at,
    site_named,
    span,
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="eagle3 runbook", description="What each alarm means, and what causes it now."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="every alarm: severity, where there is one, meaning")
    listing.add_argument("--json", action="store_true", help="one JSON array instead of a table")
    show = commands.add_parser("show", help="an alarm's page, with the stack's names filled in")
    show.add_argument("alarm", metavar="ALARM", help="an alarm's name")
    show.add_argument("--site", metavar="NAME", help="the stack, such as eagle3-dev-small (default: left as $SITE)")
    _add_diagnose(commands)
    return parser


def _add_diagnose(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("diagnose", help="look where the page says, and name the cause; changes nothing")
    parser.add_argument("alarm", metavar="ALARM", help="an alarm's name")
    parser.add_argument(
        "--site", metavar="NAME", help="the stack (default: eagle3-dev-small, or -large for a cluster's)"
    )
    parser.add_argument("--region", metavar="NAME", help="AWS region (default: AWS_REGION or the profile's)")
    parser.add_argument("--profile", metavar="NAME", help="profile of the AWS configuration (default: AWS_PROFILE)")
    parser.add_argument(
        "--url", metavar="URL", help=f"a server to ask for its own metrics; its key is taken from {KEY_VARIABLE}"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster (default: KUBECONFIG)"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")
    parser.add_argument("--namespace", default="eagle3", metavar="NAME", help="of the server (default: %(default)s)")
    parser.add_argument("--since", default="60m", metavar="TIME", help="how far to look back, 1m to 14d (default: 60m)")
    parser.add_argument(
        "--between-s", type=float, default=5.0, metavar="S",
        help="seconds between two readings of the server's counters (default: 5)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def main(argv: Sequence[str], environ: Mapping[str, str], project: Path) -> int:
    """Run one command in a checkout; returns the exit code."""
    args = build_parser().parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.CRITICAL, format="%(levelname)s: %(message)s")
    return finish(lambda: _RUN[args.command](args, environ, project))


def _list(args: argparse.Namespace, environ: Mapping[str, str], project: Path) -> str:
    return json.dumps(as_json()) if args.json else as_table()


def _show(args: argparse.Namespace, environ: Mapping[str, str], project: Path) -> str:
    alarm = alarm_named(args.alarm)
    page = Page.read(project, alarm)
    if args.site is None:
        return page.text.rstrip("\n")
    site, stack = site_named(args.site, alarm)
    return page.filled(site, cluster=stack == "large").rstrip("\n")


def _diagnose(args: argparse.Namespace, environ: Mapping[str, str], project: Path) -> str:
    alarm = alarm_named(args.alarm)
    site, stack = site_named(args.site, alarm)
    length, server = span(args.since), server_at(args.url, environ)
    if not 0 < args.between_s <= 60:
        raise InvalidInputError(f"--between-s must be above 0 and at most 60 seconds; got {args.between_s:g}")
    cluster = _cluster(args, environ) if stack == "large" else None
    aws = account(args.region, args.profile, environ)
    refusal = nothing_to_look_at(aws, server, cluster)
    if refusal is not None:
        raise InvalidInputError(refusal)
    now = datetime.now(UTC)
    context = Context(
        alarm=alarm, site=site, stack=stack, since=now - length, now=now,
        aws=aws if isinstance(aws, AwsReader) else None, cluster=cluster, server=server,
        between_readings_s=args.between_s, wait=time.sleep,
    )  # fmt: skip
    missing = [aws] if isinstance(aws, NotSeen) else []
    if server is not None:
        sys.stderr.write(f"reading {server.url} twice, {args.between_s:g} s apart\n")
    report = diagnose(context, COLLECTORS, Page.read(project, alarm).steps(), missing=missing)
    return json.dumps(report.as_json()) if args.json else report.as_text()


def _cluster(args: argparse.Namespace, environ: Mapping[str, str]) -> ClusterAccess | None:
    """The cluster's API, where anything names it."""
    named = args.kubeconfig is not None or args.context is not None or "KUBECONFIG" in environ
    standard = Path(environ.get("HOME", "/nonexistent")) / ".kube" / "config"
    if not named and not standard.is_file():
        return None
    return ClusterAccess(kubeconfig=args.kubeconfig, context=args.context, namespace=args.namespace)


_RUN = {"list": _list, "show": _show, "diagnose": _diagnose}

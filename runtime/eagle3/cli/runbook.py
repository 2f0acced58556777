"""`eagle3 runbook`: list the alarms, show an alarm's page, and diagnose what causes it now.

The infrastructure and the runbooks are no part of this package: the command is run out of a checkout, as a process of
its own, which changes nothing anywhere.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.checkout import find_project, run_in_checkout

_TEXTS = ("site", "region", "profile", "url", "context", "namespace", "since")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "runbook",
        help="what an alarm means, and what causes it now",
        description="The runbooks of the alarms: list them, show one, or have one diagnosed, which looks where its "
        "page says and names the cause. Reads only. Needs a checkout of eagle3-kit and the Python packages of "
        "eagle3-kit[infra].",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="every alarm: severity, where there is one, meaning")
    listing.add_argument("--json", action="store_true", help="one JSON array instead of a table")
    show = actions.add_parser("show", help="an alarm's page, with the stack's names filled in")
    show.add_argument("alarm", metavar="ALARM", help="an alarm's name")
    show.add_argument("--site", metavar="NAME", help="the stack, such as eagle3-dev-small (default: left as $SITE)")
    diagnose = actions.add_parser("diagnose", help="look where the page says, and name the cause")
    _add_diagnose(diagnose)
    for action in (listing, show, diagnose):
        action.add_argument(
            "--project", type=Path, metavar="DIR", help="the checkout (default: this folder, or the nearest above it)"
        )
        action.set_defaults(run=run)


def _add_diagnose(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Gathers what the alarm's page asks for, from AWS (boto3), from a server's own metrics (--url; its bearer key "
        "is taken from EAGLE3KIT_API_KEY) and from the cluster, and prints the causes, what was seen, and what could "
        "not be looked at. Reads only. A question to Cost Explorer (alarm budget) costs a cent."
    )
    parser.add_argument("alarm", metavar="ALARM", help="an alarm's name")
    parser.add_argument(
        "--site", metavar="NAME", help="the stack (default: eagle3-dev-small; eagle3-dev-large for a cluster's alarm)"
    )
    parser.add_argument("--region", metavar="NAME", help="AWS region (default: AWS_REGION, or the profile's)")
    parser.add_argument("--profile", metavar="NAME", help="profile of the AWS configuration (default: AWS_PROFILE)")
    parser.add_argument("--url", metavar="URL", help="a server to ask for its own metrics, such as http://host:8080")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster (default: KUBECONFIG)"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: the current one)")
    parser.add_argument("--namespace", metavar="NAME", help="where the server runs (default: eagle3)")
    parser.add_argument("--since", metavar="TIME", help="how far to look back, from 1m to 14d (default: 60m)")
    parser.add_argument(
        "--between-s", type=float, metavar="S", help="seconds between two readings of a server's counters (default: 5)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(args: argparse.Namespace) -> int:
    """Run the command in the checkout; its output and exit code are those of this command."""
    project = find_project(args.project, Path.cwd(), "diagnosis")
    return run_in_checkout(project, "diagnosis", _arguments(args))


def _arguments(args: argparse.Namespace) -> list[str]:
    words = [args.action]
    if args.action != "list":
        words.append(args.alarm)
    given = vars(args)
    words += [word for name in _TEXTS if given.get(name) is not None for word in (f"--{name}", given[name])]
    if given.get("kubeconfig") is not None:
        words += ["--kubeconfig", str(args.kubeconfig.absolute())]
    if given.get("between_s") is not None:
        words += ["--between-s", f"{args.between_s:g}"]
    return [*words, "--json"] if given.get("json") else words

"""The command `python -m infra.rehearsal STACK`, which `eagle3 rehearse STACK` runs.

The report goes to stdout, progress to stderr. Exit codes: 0 it went well, 1 it did not, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from eagle3.errors import ConfigError
from infra.command_end import finish
from infra.rehearsal.driver import Request, Surroundings, rehearse
from infra.rehearsal.local_aws import local_aws
from infra.rehearsal.progress import Progress
from infra.rehearsal.provider.install import install
from infra.rehearsal.provider.registry import collect

STACKS = ("small", "medium", "large", "bootstrap")


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="eagle3 rehearse",
        description="Deploy a stack with the real Terraform against a local AWS, plan again, destroy it, and check "
        "that nothing is left. No AWS account is used or seen, and no file of the checkout is written.",
    )
    parser.add_argument("stack", choices=STACKS, metavar="STACK", help=f"one of {', '.join(STACKS)}")
    parser.add_argument(
        "--environment", metavar="NAME", help="settings to use (default: EAGLE3KIT_ENVIRONMENT, or dev)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override of a setting; may be repeated"
    )
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
    return parser


def main(argv: Sequence[str], environ: Mapping[str, str], project: Path) -> int:
    """Run one rehearsal in a checkout; returns the exit code."""
    args = build_parser().parse_args(argv)

    def rehearsed() -> str:
        with _terminated_as_interrupted():
            report = rehearse(_request(args, environ, project), _surroundings(environ))
        return json.dumps(report.as_json()) if args.json else report.as_text()

    return finish(rehearsed)


def _request(args: argparse.Namespace, environ: Mapping[str, str], project: Path) -> Request:
    if not args.timeout_s > 0:
        raise ConfigError(f"--timeout-s must be above 0; got {args.timeout_s:g}")
    if args.provider_mirror is not None and args.provider == "stand-in":
        raise ConfigError("--provider-mirror gives a real provider; drop it, or --provider stand-in")
    # State is local in a rehearsal, wherever it is kept otherwise.
    overrides = [environ.get("EAGLE3KIT_SET", ""), *args.set, "state.backend=local"]
    settings = {"EAGLE3KIT_SET": "\n".join(item for item in overrides if item)}
    if args.environment is not None:
        settings["EAGLE3KIT_ENVIRONMENT"] = args.environment
    return Request(
        stack=args.stack,
        project=project,
        provider=args.provider,
        provider_mirror=None if args.provider_mirror is None else args.provider_mirror.absolute(),
        settings=settings,
        keep=args.keep,
        timeout_s=args.timeout_s,
    )


def _surroundings(environ: Mapping[str, str]) -> Surroundings:
    framework = environ.get("EAGLE3KIT_FRAMEWORK", "cdktf")
    return Surroundings(
        environ=environ,
        progress=Progress(sys.stderr),
        start_aws=local_aws,
        install_stand_in=lambda folder, python: install(folder, python, framework),
        lacking=collect().reason,
    )


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP end a rehearsal as Ctrl-C does, so that everything it started is stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    previous = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)

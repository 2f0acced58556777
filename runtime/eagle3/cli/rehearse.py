"""`eagle3 rehearse`: deploy a stack on the real Terraform against a local AWS, without an account, and destroy it.

The infrastructure is no part of this package: the rehearsal is run out of a checkout, as a process of its own.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from eagle3.errors import ConfigError

STACKS = ("small", "medium", "large", "bootstrap")
_MARKERS = ("cdktf.json", "infra/rehearsal/__main__.py")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    parser.add_argument(
        "--project", type=Path, metavar="DIR", help="the checkout (default: this folder, or the nearest above it)"
    )
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
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the rehearsal in the checkout; its output and exit code are those of this command."""
    project = find_project(args.project, Path.cwd())
    return _passed_through([sys.executable, "-m", "infra.rehearsal", *_arguments(args)], project)


def find_project(given: Path | None, here: Path) -> Path:
    """The checkout: the folder given, or the nearest one from here upwards; ConfigError if there is none."""
    for folder in [given.absolute()] if given is not None else [here, *here.parents]:
        if all((folder / marker).is_file() for marker in _MARKERS):
            return folder
    what = f"{given} is" if given is not None else f"{here} and the folders above it are"
    raise ConfigError(
        f"{what} no checkout of eagle3-kit (cdktf.json with infra/rehearsal); clone it and run this there, or name it "
        f"with --project"
    )


def _arguments(args: argparse.Namespace) -> list[str]:
    words = [args.stack, "--provider", args.provider, "--timeout-s", f"{args.timeout_s:g}"]
    words += [word for change in args.set for word in ("--set", change)]
    if args.environment is not None:
        words += ["--environment", args.environment]
    if args.provider_mirror is not None:
        words += ["--provider-mirror", str(args.provider_mirror.absolute())]
    return words + [flag for flag, given in (("--keep", args.keep), ("--json", args.json)) if given]


def _passed_through(argv: Sequence[str], folder: Path) -> int:
    """Run a command; signals sent to this process reach it, once each, and it is waited for."""
    # In a session of its own, so that Ctrl-C does not reach it a second time while it cleans up.
    process = subprocess.Popen(argv, cwd=folder, start_new_session=True)  # noqa: S603, a module of ours
    with _forwarding(process):
        code = process.wait()
    return 128 - code if code < 0 else code


@contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    previous = {number: signal.signal(number, forward) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

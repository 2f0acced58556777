"""Commands that run out of a checkout of eagle3-kit: finds it, runs a module there, and is transparent to the rest.

The infrastructure is no part of this package, so a command that needs it starts a process of its own in the checkout.
Knows no command. Invariant: the process's output and exit code are the command's, and a signal reaches it once.
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

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_settings_options(parser: argparse.ArgumentParser) -> None:
    """Add --project, --environment and --set, which every command of a checkout has."""
    parser.add_argument(
        "--project", type=Path, metavar="DIR", help="the checkout (default: this folder, or the nearest above it)"
    )
    parser.add_argument(
        "--environment", metavar="NAME", help="settings to use (default: EAGLE3KIT_ENVIRONMENT, or dev)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override of a setting; may be repeated"
    )


def settings_words(args: argparse.Namespace) -> list[str]:
    """Pass on --environment and --set as they were given."""
    words = [word for change in args.set for word in ("--set", change)]
    return words if args.environment is None else [*words, "--environment", args.environment]


def find_project(given: Path | None, here: Path, room: str) -> Path:
    """Find the checkout: the folder given, or the nearest from here upwards that has infra/ROOM; else ConfigError."""
    markers = ("cdktf.json", f"infra/{room}/__main__.py")
    for folder in [given.absolute()] if given is not None else [here, *here.parents]:
        if all((folder / marker).is_file() for marker in markers):
            return folder
    what = f"{given} is" if given is not None else f"{here} and the folders above it are"
    raise ConfigError(
        f"{what} no checkout of eagle3-kit (cdktf.json with infra/{room}); clone it and run this there, or name it "
        f"with --project"
    )


def run_in_checkout(project: Path, room: str, words: Sequence[str]) -> int:
    """Run `python -m infra.ROOM WORDS` in a checkout; its exit code, 128 + the signal's number if one killed it."""
    # In a session of its own, so that Ctrl-C does not reach it a second time while it cleans up.
    process = subprocess.Popen(  # noqa: S603, a module of ours
        [sys.executable, "-m", f"infra.{room}", *words], cwd=project, start_new_session=True
    )
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

"""`eagle3 draft`: look into a draft, convert it between formats, find out what is wrong with it."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.config.embedded import EMBEDDED
from eagle3.models.draft_keys import DRAFT_FORMATS

_CONVENTIONS = ("input", "output")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the commands."""
    draft = commands.add_parser("draft", help="inspect, convert and check drafts", description=__doc__)
    kinds = draft.add_subparsers(dest="kind", required=True, metavar="KIND")

    inspect = kinds.add_parser("inspect", help="format, flags, tensors and vocabulary of a draft, as JSON")
    inspect.add_argument("draft", nargs="?", default=EMBEDDED, metavar="PATH", help="directory (default: the shipped)")
    _add_convention(inspect)
    inspect.set_defaults(run=Deferred("eagle3.cli.run.draft:inspect"))

    converting = kinds.add_parser("convert", help="write a draft in another format, without loss")
    converting.add_argument("draft", metavar="SOURCE", help="draft directory")
    converting.add_argument("destination", type=Path, metavar="DESTINATION", help="new or empty directory")
    converting.add_argument("--format", choices=DRAFT_FORMATS, required=True, help="format to write")
    _add_convention(converting)
    converting.set_defaults(run=Deferred("eagle3.cli.run.draft:convert"))

    doctor = kinds.add_parser("doctor", help="what is wrong with a draft, in plain words; exits 1 if it is useless")
    doctor.add_argument("--target", default=EMBEDDED, metavar="PATH", help="target model (default: %(default)s)")
    doctor.add_argument("--draft", default=EMBEDDED, metavar="PATH", help="draft directory (default: %(default)s)")
    doctor.add_argument("--no-probe", action="store_true", help="look at the files only, do not run the models")
    doctor.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_convention(doctor)
    doctor.set_defaults(run=Deferred("eagle3.cli.run.draft:doctor"))


def _add_convention(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--taps", dest="convention", choices=_CONVENTIONS,
        help="what tap layer ids count: inputs or outputs of layers (default: what the format says)",
    )  # fmt: skip

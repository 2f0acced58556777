"""Runs `eagle3 data build`."""

from __future__ import annotations

import argparse
import sys

from tqdm import tqdm

from eagle3.cli.run.settings import validated
from eagle3.models.embedded import target_path
from eagle3.models.tokenizer import load_tokenizer
from eagle3.train.build import BuildSettings, bulk_target
from eagle3.train.build import build as build_data


def build(args: argparse.Namespace) -> int:
    """Build the folder, with a progress bar for each stage."""
    given = {name: getattr(args, name) for name in BuildSettings.model_fields if getattr(args, name, None) is not None}
    settings = validated(BuildSettings, given)
    path = target_path(settings.target)
    tokenizer = load_tokenizer(path)
    target = bulk_target(path, settings.tap_inputs)
    with tqdm(disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def on_progress(done: int, total: int, what: str) -> None:
            bar.set_description(what)
            bar.total, bar.n = total, done
            bar.refresh()

        build_data(args.output, settings, target, tokenizer, on_progress)
    print(args.output)
    return 0

"""`eagle3 train`: train a draft on a data folder, export it in the original EAGLE-3 format, draw its loss."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from eagle3.cli.options import validated
from eagle3.config.deployment import EMBEDDED
from eagle3.errors import ConfigError
from eagle3.models.embedded import target_path
from eagle3.models.target_loader import load_target
from eagle3.train.run import train
from eagle3.train.settings import Stage, TrainSettings
from eagle3.train.trainer import Progress


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser("train", help="train a draft", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder made by `eagle3 data build`")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="where results go; resumes")
    parser.add_argument("--target", default=EMBEDDED, metavar="PATH", help="target model (default: %(default)s)")
    parser.add_argument("--initial-draft", type=Path, metavar="DIR", help="go on from this draft, not from the target")
    parser.add_argument(
        "--stages", required=True, metavar="STEPSxTTT,…",
        help="optimiser steps and training-time-test steps of each stage, such as 1000x1,500x2,500x4",
    )  # fmt: skip
    parser.add_argument("--draft-vocab-size", type=int, metavar="N", help="tokens it can propose (default: 8192)")
    parser.add_argument("--held-out", type=int, metavar="N", help="rows kept for measuring tau (default: 100)")
    parser.add_argument("--learning-rate", type=float, metavar="RATE", help="peak (default: 1e-3)")
    parser.add_argument("--warmup-steps", type=int, metavar="N", help="linear warm-up (default: 100)")
    parser.add_argument("--feature-noise", type=float, metavar="SHARE", help="of each feature's size (default: 0.05)")
    parser.add_argument("--positions-per-batch", type=int, metavar="N", help="padded tokens a batch (default: 2048)")
    parser.add_argument("--step-decay", type=float, metavar="W", help="loss weight of step s is W**s (default: 0.8)")
    parser.add_argument("--eval-every", type=int, metavar="N", help="optimiser steps (default: 200)")
    parser.add_argument("--checkpoint-every", type=int, metavar="N", help="optimiser steps (default: 100)")
    parser.add_argument("--no-bf16", dest="bf16", action="store_false", default=None, help="float32 matrix products")
    parser.add_argument("--seed", type=int, metavar="N", help="(default: 0)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train with a progress bar; prints the folder of the exported draft."""
    given = {name: getattr(args, name) for name in TrainSettings.model_fields if getattr(args, name, None) is not None}
    settings = validated(TrainSettings, given | {"stages": parse_stages(args.stages)})
    target = load_target(target_path(args.target))
    with tqdm(total=settings.total_steps, unit="step", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def on_progress(progress: Progress) -> None:
            bar.n = progress.step
            tau = {} if progress.held_out_tau is None else {"tau": f"{progress.held_out_tau:.3f}"}
            bar.set_postfix({"loss": f"{progress.loss:.3f}", "first": f"{progress.first_accuracy:.2f}", **tau})

        print(train(target, settings, args.initial_draft, on_progress))
    return 0


def parse_stages(text: str) -> tuple[Stage, ...]:
    """`1000x1,500x4` to stages; ConfigError for anything else."""
    stages: list[Stage] = []
    for part in text.split(","):
        steps, _, ttt = part.strip().partition("x")
        if not (steps.isdecimal() and ttt.isdecimal()):
            raise ConfigError(f"--stages: {part!r} is not STEPSxTTT; write for instance 1000x1,500x4")
        stages.append(validated(Stage, {"optimiser_steps": int(steps), "ttt_steps": int(ttt)}))
    return tuple(stages)

"""Runs `eagle3 train`: flags become settings, progress a bar."""

from __future__ import annotations

import argparse
import sys

from tqdm import tqdm

from eagle3.cli.run.settings import validated
from eagle3.errors import ConfigError
from eagle3.models.embedded import target_path
from eagle3.models.target_loader import load_target
from eagle3.train.run import train
from eagle3.train.settings import Stage, TrainSettings
from eagle3.train.trainer import Progress


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

"""Runs `eagle3 tune`: loads both models, has the shapes measured, prints them and writes the winning settings."""

from __future__ import annotations

import argparse
import json
import sys

import torch
from tqdm import tqdm

from eagle3.bench.peers.questions import QUESTIONS
from eagle3.cli.options import MODEL_FLAGS
from eagle3.cli.run.generate import encode, read_prompts
from eagle3.cli.run.settings import deployment_config
from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.loading import load_models
from eagle3.errors import ConfigError
from eagle3.models.embedded import target_name
from eagle3.ops.tune.arms import Workplace
from eagle3.ops.tune.report import settings_yaml, tuning_json, tuning_table
from eagle3.ops.tune.tuning import Tuning, steps, tune
from eagle3.sampling.params import sampling_params


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    _check(args)
    config = deployment_config(args)
    prompts = read_prompts(args.prompts or QUESTIONS, args.limit)
    # Every drafter is tried; the one that serves is chosen here.
    tried = config.model_copy(update={"speculation": config.speculation.model_copy(update={"drafters": ("eagle3",)})})
    models = load_models(tried)
    token_ids = [encode(models.tokenizer, prompt, raw=False, system=None) for prompt in prompts]
    params = sampling_params(max_new_tokens=args.max_new_tokens)
    place = Workplace.roomy(models, config.engine, params, max(map(len, token_ids)))
    with tqdm(total=steps(len(prompts)), unit="step", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def on_progress(what: str) -> None:
            bar.set_description(what)
            bar.update()

        tuning = tune(place, token_ids, config.speculation, on_progress=on_progress)
    _print(args, config, tuning)
    return 0


def _print(args: argparse.Namespace, config: DeploymentConfig, tuning: Tuning) -> None:
    measured_with = (
        f"{target_name(config.target)}, {config.quantize or config.dtype}, {torch.get_num_threads()} threads"
        if config.device == "cpu"
        else f"{target_name(config.target)}, {config.dtype}, {config.device}"
    )
    text = settings_yaml(tuning, measured_with)
    if args.output is not None:
        args.output.write_text(text, encoding="utf-8")
    print(json.dumps(tuning_json(tuning)) if args.json else f"{tuning_table(tuning)}\n\n{text}", end="")
    if args.json:
        print()


def _check(args: argparse.Namespace) -> None:
    """ConfigError for flags that cannot be meant; before anything is measured."""
    for setting, (attribute, flag) in MODEL_FLAGS.items():
        if setting.startswith("speculation.") and getattr(args, attribute) is not None:
            raise ConfigError(f"tune chooses {flag} by itself; leave it out")
    if args.max_new_tokens < 2:
        raise ConfigError(f"--max-new-tokens must be at least 2, so that there are cycles; got {args.max_new_tokens}")
    if args.output is not None and not args.output.absolute().parent.is_dir():
        raise ConfigError(f"cannot write {args.output}: its directory does not exist; create it first")

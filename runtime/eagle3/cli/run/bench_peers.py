"""Runs `eagle3 bench peers`: lines the systems up, has them take their turns, prints and stores what came of it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tqdm import tqdm

from eagle3.bench.peers.catalogue import CATALOGUE, QUICK, Surroundings, check_names, line_up
from eagle3.bench.peers.chart import write_chart
from eagle3.bench.peers.peer import Line
from eagle3.bench.peers.profile import Profile, profile_systems
from eagle3.bench.peers.profile_report import profile_json, profile_markdown
from eagle3.bench.peers.questions import QUESTIONS, WARM_UP
from eagle3.bench.peers.race import Budget, Section, SectionResult, run_race
from eagle3.bench.peers.report import report_json, report_markdown
from eagle3.bench.peers.requantised import requantised
from eagle3.bench.peers.result import summarise
from eagle3.bench.peers.turn import Task, Turn
from eagle3.cli.run.generate import encode, read_prompts
from eagle3.cli.run.settings import check_above_zero, deployment_config, without_reuse
from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.upstream_models import UpstreamModels, prepare_models
from eagle3.errors import ConfigError, InvalidInputError
from eagle3.models.embedded import target_path
from eagle3.models.target_loader import read_architecture
from eagle3.models.tokenizer import Tokenizer, load_tokenizer

_QUICK_BUDGET_S = 255.0


def run(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """Measure, print, and exit with 1 if a system failed or a text of ours was not what it must be."""
    names = args.system or (list(CATALOGUE) if args.full else QUICK)
    check_names(names)
    _check(args)
    config = without_reuse(deployment_config(args))
    source = target_path(config.target)
    tokenizer = load_tokenizer(source)
    sections = _sections(args, tokenizer)
    line = line_up(names, _surroundings(args, config, tokenizer, sections, environ))
    for name, reason in line.left_out.items():
        if args.system:
            raise ConfigError(f"--system {name} cannot be measured: {reason}")
        print(f"{name} is left out: {reason}", file=sys.stderr)
    rounds = args.rounds or (3 if args.full else 2)
    plan = {"full": args.full, "rounds": rounds, "seed": args.seed, "threads": _threads(config)}

    def report(results: list[SectionResult], profiles: list[Profile]) -> dict[str, Any]:
        found = report_json(results, line, plan) | ({"profile": profile_json(profiles)} if profiles else {})
        if args.json:
            _write(args.json, json.dumps(found, indent=1) + "\n")
        return found

    if args.profile and not any(peer.file == "own_system" for peer in line.peers):
        raise ConfigError("--profile takes our own cycles apart; measure at least one of our systems with it")
    results = _race(args, line, sections, rounds, lambda results: report(results, []))
    report(results, [])
    profiles = profile_systems(line.peers, sections[0].task) if args.profile else []
    found = report(results, profiles)
    if args.chart:
        write_chart({each.section.title: summarise(each, line.peers) for each in results}, args.chart)
    print(report_markdown(results, line, rounds=rounds))
    if profiles:
        print("\n" + profile_markdown(profiles))
    return 1 if found["failures"] or found["unequal"] else 0


def _race(
    args: argparse.Namespace, line: Line, sections: list[Section], rounds: int, on_results: Any
) -> list[SectionResult]:
    total_s = args.budget_s or (None if args.full else _QUICK_BUDGET_S)
    turns = len(line.peers) * len(sections) * rounds
    with tqdm(total=turns, unit="turn", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def on_turn(results: list[SectionResult], turn: Turn) -> None:
            bar.update()
            bar.set_postfix_str(f"{turn.system} took {turn.elapsed_s:.0f} s")
            if turn.failure is not None:
                print(f"{turn.system} failed: {turn.failure}", file=sys.stderr)
            on_results(results)

        budget = Budget(total_s=total_s, turn_s=args.turn_timeout_s)
        return run_race(line.peers, sections, rounds=rounds, budget=budget, on_turn=on_turn)


def _check(args: argparse.Namespace) -> None:
    check_above_zero(
        {
            "--limit": args.limit,
            "--rounds": args.rounds,
            "--max-new-tokens": args.max_new_tokens,
            "--budget-s": args.budget_s,
            "--turn-timeout-s": args.turn_timeout_s,
        }
    )
    for value in args.temperature or ():
        if not 0 <= value <= 2:
            raise ConfigError(f"--temperature must be from 0 to 2; got {value}")
    if args.seed < 0:
        raise ConfigError(f"--seed must be 0 or above; got {args.seed}")
    for path in (args.json, args.chart):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"cannot write {path}: its directory does not exist; create it first")


def _sections(args: argparse.Namespace, tokenizer: Tokenizer) -> list[Section]:
    limit = args.limit or (40 if args.full else 4)
    temperatures = args.temperature or ([0.0, 1.0] if args.full else [0.0])
    max_tokens = args.max_new_tokens or (128 if args.full else 48)
    warm_up = tuple(encode(tokenizer, WARM_UP, raw=False, system=None))
    sections = []
    for path in args.prompts or [QUESTIONS]:
        texts = read_prompts(path, limit)
        if WARM_UP in texts:
            raise InvalidInputError(f"{path} holds the prompt of the warm-up, {WARM_UP!r}; leave it out")
        prompts = tuple(tuple(encode(tokenizer, text, raw=False, system=None)) for text in texts)
        for temperature in temperatures:
            task = Task(
                prompts=prompts, warm_up=warm_up, max_tokens=max_tokens, temperature=temperature, seed=args.seed
            )
            sections.append(Section(prompts_name=path.stem, task=task))
    return sections


def _surroundings(
    args: argparse.Namespace,
    config: DeploymentConfig,
    tokenizer: Tokenizer,
    sections: list[Section],
    environ: Mapping[str, str],
) -> Surroundings:
    folder = args.cache_dir or Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eagle3" / "bench"
    arch = read_architecture(target_path(config.target))
    longest = max(len(ids) for section in sections for ids in (section.task.warm_up, *section.task.prompts))
    longest += sections[0].task.max_tokens
    if longest > arch.max_position:
        raise InvalidInputError(
            f"the longest prompt and its answer have {longest} tokens; the target's context is {arch.max_position}; "
            "ask for fewer with --max-new-tokens, or leave long prompts out"
        )

    @cache
    def export() -> UpstreamModels:
        print("writing target and draft for vLLM, unless they are there already", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        return prepare_models(config, folder, draft_format="original")

    threads = _threads(config)
    return Surroundings(
        config=config,
        python=Path(sys.executable),
        llama_python=args.llama_python.absolute(),
        vllm_python=args.vllm_python.absolute(),
        threads=threads,
        cores=tuple(sorted(os.sched_getaffinity(0))),
        longest=longest,
        ending_ids=tokenizer.ending_ids,
        num_layers=arch.num_layers,
        compiles=args.full and shutil.which("g++") is not None,
        export=export,
        requantised=lambda path: requantised(path, folder, python=args.llama_python.absolute(), threads=threads),
    )


def _threads(config: DeploymentConfig) -> int:
    return config.threads or len(os.sched_getaffinity(0))


def _write(path: Path, text: str) -> None:
    """Whole or not at all: the run may be cut while it writes."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)

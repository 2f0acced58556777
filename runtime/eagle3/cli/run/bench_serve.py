"""Runs `eagle3 bench serve`: starts the systems, puts the same load on each, prints and stores what came of it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import psutil
import yaml
from tqdm import tqdm

from eagle3.bench.serve import PROMPTS, LoadPlan, run_load
from eagle3.bench.serve_chart import write_chart
from eagle3.bench.serve_result import LevelResult, results_table
from eagle3.bench.serve_system import Command, System, ask_once, free_port, model_of, parse_url, started, unique
from eagle3.cli.bench_serve import DEFAULT_DURATION_S
from eagle3.cli.run.generate import read_prompts
from eagle3.cli.run.settings import check_above_zero, deployment_config
from eagle3.config.deployment import DeploymentConfig
from eagle3.config.engine_arguments import vllm_command
from eagle3.engine.upstream_models import prepare_models
from eagle3.errors import ConfigError


def run(args: argparse.Namespace) -> int:
    """Start, measure, print; exits with 1 if a system answered no request of a level."""
    plan = _plan(args)
    config = deployment_config(args)
    for path in (args.json, args.chart):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(f"cannot write {path}: its directory does not exist; create it first")
    with ExitStack() as stack:
        stack.enter_context(_terminated_as_interrupted())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eagle3-bench-")))
        commands = _commands(args, config, folder)
        urls = [parse_url(text) for text in args.url]
        unique([name for name, _ in urls] + [command.name for command in commands])
        systems = [System(name=name, url=url, model=model_of(url, plan.headers)) for name, url in urls]
        for system in systems:
            ask_once(system, timeout_s=plan.timeout_s, headers=plan.headers)
        for command in commands:
            print(f"starting {command.name}", file=sys.stderr)
            systems.append(stack.enter_context(started(command, timeout_s=args.start_timeout_s, headers=plan.headers)))
        results = _measure(systems, plan)
    if args.json:
        args.json.write_text(json.dumps(_report(results, plan), indent=1) + "\n", encoding="utf-8")
    if args.chart:
        write_chart(results, args.chart)
    print(results_table(results))
    return 0 if all(result.requests for result in results) else 1


def _measure(systems: list[System], plan: LoadPlan) -> list[LevelResult]:
    total = len(systems) * len(plan.levels)
    with tqdm(total=total, unit="level", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def on_level(result: LevelResult) -> None:
            bar.update()
            bar.set_postfix_str(f"{result.system} at {result.concurrency}: {result.tokens_per_s:.0f} tokens/s")

        return run_load(systems, plan, on_level)


def _plan(args: argparse.Namespace) -> LoadPlan:
    try:
        levels = tuple(int(part) for part in args.concurrency.split(","))
    except ValueError:
        levels = ()
    if not levels or not all(1 <= level <= 1024 for level in levels):
        raise ConfigError(f"--concurrency: got {args.concurrency!r}; give numbers from 1 to 1024, such as 1,4,16,64")
    check_above_zero(
        {
            "--limit": args.limit,
            "--rounds": args.rounds,
            "--max-tokens": args.max_tokens,
            "--duration-s": args.duration_s,
            "--requests": args.requests,
            "--request-timeout-s": args.request_timeout_s,
            "--start-timeout-s": args.start_timeout_s,
        }
    )
    duration_s = args.duration_s
    if duration_s is None and args.requests is None:
        duration_s = DEFAULT_DURATION_S
    prompts = read_prompts(args.prompts, args.limit) if args.prompts else PROMPTS[: args.limit]
    return LoadPlan(
        levels=levels,
        prompts=tuple(prompts),
        max_tokens=args.max_tokens,
        duration_s=duration_s,
        requests=args.requests,
        rounds=args.rounds,
        timeout_s=args.request_timeout_s,
        headers={"Authorization": f"Bearer {args.api_key}"} if args.api_key else {},
    )


def _commands(args: argparse.Namespace, config: DeploymentConfig, folder: Path) -> list[Command]:
    wanted = args.system or ([] if args.url else ["speculative", "plain"])
    if args.vllm_executable and not args.system:
        wanted.append("vllm")
    for name in wanted:
        if name.endswith("speculative") and config.draft is None:
            raise ConfigError(f"--system {name} needs a draft; name one with --draft, or measure systems without")
    commands = []
    for name in dict.fromkeys(wanted):
        plain = config if name.endswith("speculative") else config.without_speculation()
        commands.append(
            _vllm_server(name, plain, folder, args) if name.startswith("vllm") else _own_server(name, plain, folder)
        )
    return commands


def _vllm_server(name: str, config: DeploymentConfig, folder: Path, args: argparse.Namespace) -> Command:
    """vLLM without our server before it, on the same weights and with the same limits."""
    models = prepare_models(config, folder, draft_format="original")
    update = {"executable": args.vllm_executable, "arguments": tuple(shlex.split(args.vllm_arguments))}
    port = free_port()
    command = vllm_command(
        config.model_copy(update={"engine": config.engine.model_copy(update=update)}),
        target=str(models.target),
        draft=None if models.draft is None else str(models.draft),
        port=port,
        model_name=models.target_name,
        context_tokens=models.context_tokens,
        bytes_per_token=models.bytes_per_token,
    )
    return Command(
        name=name,
        argv=command.arguments,
        port=port,
        log=folder / f"{name}.log",
        environment={**command.environment, **os.environ},
    )


def _own_server(name: str, config: DeploymentConfig, folder: Path) -> Command:
    port = free_port()
    values = config.model_dump(mode="json")
    # Nobody but this test talks to it, and its load is no news for CloudWatch or a collector of traces.
    values["serving"] |= {"host": "127.0.0.1", "port": port, "api_keys_file": None, "tracing_endpoint": None}
    values["metrics"]["emf"] = "off"
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    argv = (sys.executable, "-m", "eagle3.cli.main", "serve", "--config", str(path))
    # The file holds every setting, those of EAGLE3_* variables included; the variables would override it.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EAGLE3_")}
    return Command(name=name, argv=argv, port=port, log=folder / f"{name}.log", environment=environment)


def _report(results: list[LevelResult], plan: LoadPlan) -> dict[str, object]:
    return {
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_mb": psutil.virtual_memory().total // 2**20,
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "load": {
            "levels": plan.levels,
            "prompts": len(plan.prompts),
            "max_tokens": plan.max_tokens,
            "duration_s": plan.duration_s,
            "requests": plan.requests,
            "rounds": plan.rounds,
        },
        "results": [result.as_json() for result in results],
    }


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends the test as Ctrl-C does, so that the servers are stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)

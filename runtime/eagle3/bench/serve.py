"""A load test of servers beside each other: the same users, prompts and machine for every system.

All systems run during the whole test and only one at a time is under load; the others are idle. Levels are the outer
loop and systems the inner one, so that what drifts on the machine meets all alike. Each level begins with a request
that is not measured. Knows neither how systems are started nor how results are shown.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle3.bench.serve_result import LevelResult, level_result
from eagle3.bench.serve_system import System, ask_once
from eagle3.errors import ConfigError, Eagle3Error

PROMPTS = (
    "Explain in a few sentences why the sky is blue.",
    "Write a short story about a lighthouse keeper who finds a letter.",
    "What are three ways to save water at home?",
    "Give step-by-step instructions for making scrambled eggs.",
    "What is the difference between weather and climate?",
    "Write a polite email that asks to move a meeting to Friday.",
    "List the planets of the solar system with one fact about each.",
    "How does a bicycle stay upright while it moves?",
    "Write a Python function that checks whether a word is a palindrome.",
    "Describe a walk through a forest in autumn.",
    "Why do leaves change colour before they fall?",
    "What should I think about before I adopt a dog?",
    "Explain what a database index is to a beginner.",
    "Suggest a simple weekly exercise plan for an office worker.",
    "Who were the main figures of the Renaissance, and what did they do?",
    "Compare trains and planes for a journey of 500 kilometres.",
)
"""Used where no file is given."""

_WORKER = Path(__file__).with_name("serve_worker.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadPlan:
    """The load, the same for every system."""

    levels: tuple[int, ...]
    """Users at a time."""
    prompts: tuple[str, ...]
    """Sent in this order, from the first at every level; they begin again when there are fewer than requests."""
    max_tokens: int
    duration_s: float | None
    """Seconds in which new requests begin; each user sends one at least."""
    requests: int | None
    """Requests of a level, instead of a duration."""
    timeout_s: float
    """Seconds without a byte after which a request has failed."""
    headers: dict[str, str]
    """Such as an API key."""
    rounds: int = 1
    """Times that each system has its turn at each level; the answers of all of them count together."""


def run_load(
    systems: Sequence[System], plan: LoadPlan, on_level: Callable[[LevelResult], None] = lambda result: None
) -> list[LevelResult]:
    """Measure every system at every level; results in the order of measurement."""
    assert (plan.duration_s is None) != (plan.requests is None)
    if importlib.util.find_spec("locust") is None:
        raise ConfigError("bench serve needs locust, which is not installed; install eagle3-kit[bench]")
    results = []
    for level in plan.levels:
        records: dict[str, list[dict[str, object]]] = {system.name: [] for system in systems}
        for turn in range(plan.rounds):
            # There and back again: what drifts in the machine hits all systems alike.
            for system in systems if turn % 2 == 0 else reversed(systems):
                ask_once(system, timeout_s=plan.timeout_s, headers=plan.headers)
                records[system.name].append(_load(system, level, plan))
        for system in systems:
            results.append(level_result(system.name, level, records[system.name]))
            on_level(results[-1])
    return results


def _load(system: System, level: int, plan: LoadPlan) -> dict[str, object]:
    spec = {
        "url": system.url,
        "model": system.model,
        "concurrency": level,
        "prompts": plan.prompts,
        "max_tokens": plan.max_tokens,
        "duration_s": plan.duration_s,
        "requests": plan.requests,
        "timeout_s": plan.timeout_s,
        "headers": plan.headers,
    }
    # -P: the folder of this package must not shadow modules that locust imports.
    with subprocess.Popen(  # noqa: S603, our own file
        [sys.executable, "-P", "-W", "ignore", str(_WORKER)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as worker:  # fmt: skip
        try:
            output, complaints = worker.communicate(json.dumps(spec))
        except BaseException:  # Ctrl-C included: the load must not go on without its reader
            worker.kill()
            raise
    if worker.returncode:
        lines = complaints.strip().splitlines()[-3:]
        raise Eagle3Error(f"the load on {system.name} at {level} users could not be made: {' | '.join(lines)}")
    record: dict[str, object] = json.loads(output)
    return record

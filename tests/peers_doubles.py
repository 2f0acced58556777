"""Turns, peers and sections of `bench peers` that several tests make up; and a scripted system in a file."""

from __future__ import annotations

import sys
from pathlib import Path

from eagle3.bench.peers.peer import Peer
from eagle3.bench.peers.race import Section, SectionResult
from eagle3.bench.peers.turn import Answered, Task, Turn

# What a file of `systems/` must offer, without a model: token 100 + n answers prompt n after `first_s`.
SCRIPTED = """
import os, time
class System:
    versions = {"scripted": "1.2"}
    notes = ["by heart"]
    def __init__(self, settings):
        self.settings = settings
    def answer(self, prompt_ids, *, max_tokens, temperature, seed):
        if self.settings.get("fails"):
            raise ValueError("out of order")
        time.sleep(self.settings.get("sleep_s", 0.0))
        tokens = [100 + prompt_ids[0], seed, int("EAGLE3_TARGET" in os.environ), int(os.environ.get("MARK", 0))]
        return {"token_ids": tokens[:max_tokens], "first_tokens": 1, "first_s": 0.0, "cycles": 2}
def open_system(settings):
    return System(settings)
"""


def scripted_peer(folder: Path, name: str = "scripted", **settings) -> Peer:
    """A peer whose file is in `folder`; `turn.SYSTEMS` must be set to it."""
    (folder / "scripted_system.py").write_text(SCRIPTED)
    return Peer(name=name, file="scripted_system", python=Path(sys.executable), settings=settings)


def peer(name: str, **values) -> Peer:
    """A peer that is never started."""
    return Peer(name=name, file="none", python=Path("python"), settings={}, **values)


def task(prompts=((1,), (2,)), **values) -> Task:
    """Two prompts of one token each at temperature 0."""
    values = {"warm_up": (9,), "max_tokens": 8, "temperature": 0.0, "seed": 0} | values
    return Task(prompts=tuple(tuple(ids) for ids in prompts), **values)


def section(name: str = "questions", **values) -> Section:
    """One section of that task."""
    return Section(prompts_name=name, task=task(**values))


def answered(token_ids, *, first_s: float = 0.5, total_s: float = 1.5, cycles: int | None = None) -> Answered:
    """An answer whose first token came alone; plain decoding unless `cycles` says otherwise."""
    return Answered(
        token_ids=tuple(token_ids),
        first_tokens=1,
        first_s=first_s,
        total_s=total_s,
        cycles=len(token_ids) - 1 if cycles is None else cycles,
    )


def turn(system: str, *answers: Answered, number: int = 1, **values) -> Turn:
    """A turn that ended well."""
    values = {"ready_s": 2.0, "first_token_s": 3.0, "peak_memory_mb": 100, "elapsed_s": 5.0} | values
    versions = {"package": "1.0"}
    return Turn(system=system, round=number, answers=answers, versions=versions, notes=("as usual",), **values)


def result_of(*turns: Turn, skipped=None, **values) -> SectionResult:
    """The turns of one section."""
    return SectionResult(section(**values), list(turns), dict(skipped or {}))

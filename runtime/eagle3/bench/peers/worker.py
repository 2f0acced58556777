"""One turn of one system, in a process of its own: `python -P worker.py SPEC RESULT`, with a pipe as standard input.

Run by path under the Python of the system, which need not have eagle3: imports the standard library and the one file
that the specification names. When whoever holds the pipe is gone, the process ends. Knows no system. Every time is in
seconds; those of the start count from when the process was asked for, by the machine's monotonic clock.
Invariant: a result is written whole or not at all.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypedDict


class Reply(TypedDict):
    """What a system says about one answer."""

    token_ids: list[int]
    """The answer, the token that ended it included."""
    first_tokens: int
    """Tokens that came together with the first one."""
    first_s: float
    """Seconds from the call to the first token."""
    cycles: int | None
    """Passes of the target after the one that gave the first token; None where the system does not tell."""


class OpenSystem(Protocol):
    """What `open_system(settings)` of a file in `systems/` returns: loaded, with no request yet."""

    versions: dict[str, str]
    """Packages that do the work, and their versions."""
    notes: list[str]
    """How it is run, for the report."""

    def answer(self, prompt_ids: Sequence[int], *, max_tokens: int, temperature: float, seed: int) -> Reply: ...


def take_turn(spec: dict[str, Any], system: OpenSystem, now_s: Any = time.perf_counter) -> list[dict[str, Any]]:
    """Answer every prompt of the specification, one after another."""
    answers = []
    for number, prompt_ids in enumerate(spec["prompts"]):
        begin_s = now_s()
        reply = system.answer(
            prompt_ids, max_tokens=spec["max_tokens"], temperature=spec["temperature"], seed=spec["seed"] + number
        )
        answers.append({**reply, "total_s": now_s() - begin_s})
    return answers


def load(path: Path) -> Any:
    """The module at a path."""
    spec = importlib.util.spec_from_file_location("peer_system", path)
    assert spec is not None, "a file of this package"
    assert spec.loader is not None, "a file of this package"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _end_with_parent() -> None:
    # Not through sys.stdin, whose lock a reading thread would hold when the interpreter ends.
    while os.read(0, 1):
        pass
    os._exit(1)


def main(spec_path: str, result_path: str) -> None:
    """Load the system, warm up by one answer that does not count, answer, write what happened."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    spec = json.loads(Path(spec_path).read_text(encoding="utf-8"))
    system: OpenSystem = load(Path(spec["system"])).open_system(spec["settings"])
    ready_s = time.monotonic() - spec["asked_s"]
    before_s = time.monotonic() - spec["asked_s"]
    warm = system.answer(spec["warm_up"], max_tokens=spec["warm_up_tokens"], temperature=spec["temperature"], seed=0)
    result = {
        "ready_s": ready_s,
        "first_token_s": before_s + warm["first_s"],
        "answers": take_turn(spec, system),
        "versions": system.versions,
        "notes": system.notes,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    part = Path(f"{result_path}.part")
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(result_path)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

"""One turn: a fresh process of one system answers every prompt once.

Knows nothing of rounds. A turn that fails is a result with the reason, since the others go on. Seconds throughout.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3.bench.peers.peer import SYSTEMS, Peer

_WORKER = Path(__file__).with_name("worker.py")
_WARM_UP_TOKENS = 16
_LOG_LINES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """One answer of one system."""

    token_ids: tuple[int, ...]
    first_tokens: int
    """Tokens that came with the first one."""
    first_s: float
    """From the request to the first token."""
    total_s: float
    """From the request to the last token."""
    cycles: int | None
    """Target passes after the first token, where the system tells."""

    @property
    def decoded(self) -> int:
        """Tokens after the first."""
        return len(self.token_ids) - self.first_tokens

    @property
    def decode_s(self) -> float:
        """From the first token to the last."""
        return self.total_s - self.first_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one system did in one round."""

    system: str
    round: int
    """From 1."""
    answers: tuple[Answered, ...] = ()
    failure: str | None = None
    ready_s: float | None = None
    """From the start of the process until it could take a request."""
    first_token_s: float | None = None
    """From the start of the process to the first token of its first answer, which is the warm-up's."""
    peak_memory_mb: int | None = None
    elapsed_s: float = 0.0
    """The whole turn, start and end of the process included."""
    versions: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What every system is asked."""

    prompts: tuple[tuple[int, ...], ...]
    """Token ids, the chat template included."""
    warm_up: tuple[int, ...]
    """A prompt that is not among them."""
    max_tokens: int
    temperature: float
    seed: int


def take_turn(peer: Peer, task: Task, *, round_number: int, timeout_s: float | None) -> Turn:
    """Start the system, have it answer, and see its process end."""
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eagle3-peers-") as name:
        folder = Path(name)
        result = folder / "result.json"
        failure = _run(peer, task, folder, result, timeout_s)
        elapsed_s = time.monotonic() - begin_s
        if failure is not None:
            return Turn(system=peer.name, round=round_number, failure=failure, elapsed_s=elapsed_s)
        record: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return Turn(
        system=peer.name,
        round=round_number,
        answers=_answers(record["answers"]),
        ready_s=record["ready_s"],
        first_token_s=record["first_token_s"],
        peak_memory_mb=record["peak_memory_mb"],
        elapsed_s=elapsed_s,
        versions=record["versions"],
        notes=tuple(record["notes"]),
    )


def _run(peer: Peer, task: Task, folder: Path, result: Path, timeout_s: float | None) -> str | None:
    """Run the process to its end; the reason if there is no result."""
    spec = folder / "spec.json"
    log = folder / "log"
    content = {
        "system": str(SYSTEMS / f"{peer.file}.py"),
        "settings": dict(peer.settings),
        "prompts": task.prompts,
        "warm_up": task.warm_up,
        "warm_up_tokens": min(_WARM_UP_TOKENS, task.max_tokens),
        "max_tokens": task.max_tokens,
        "temperature": task.temperature,
        "seed": task.seed,
        "asked_s": time.monotonic(),
    }
    spec.write_text(json.dumps(content), encoding="utf-8")
    # The settings hold everything; EAGLE3_* variables would say it a second time.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EAGLE3_")}
    try:
        # -P: the folder of the worker must not shadow modules that systems import.
        with log.open("wb") as stream, subprocess.Popen(  # noqa: S603, our own file
            [str(peer.python), "-P", "-W", "ignore", str(_WORKER), str(spec), str(result)],
            stdin=subprocess.PIPE, stdout=stream, stderr=subprocess.STDOUT, env={**environment, **peer.environment},
        ) as process:  # fmt: skip
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"took longer than {timeout_s:.0f} s"
            except BaseException:  # Ctrl-C included: it must not go on without its reader
                process.kill()
                raise
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    if code or not result.is_file():
        return f"ended with code {code}: {_end_of(log)}"
    return None


def _end_of(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " | ".join(lines[-_LOG_LINES:]) or "it said nothing"


def _answers(records: Sequence[Mapping[str, Any]]) -> tuple[Answered, ...]:
    return tuple(
        Answered(
            token_ids=tuple(record["token_ids"]),
            first_tokens=record["first_tokens"],
            first_s=record["first_s"],
            total_s=record["total_s"],
            cycles=record["cycles"],
        )
        for record in records
    )

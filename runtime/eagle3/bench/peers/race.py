"""The order of the turns: rounds are the outer loop and systems the inner one, so that drift meets all alike.

Knows neither how a turn is taken nor how results are shown. Within a budget, a turn that is expected not to fit is
left out; the first rounds go to everyone as long as there is time at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eagle3.bench.peers.peer import Peer
from eagle3.bench.peers.turn import Task, Turn, take_turn

_LEAST_TIMEOUT_S = 20.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One set of prompts at one temperature, and what every system is asked there."""

    prompts_name: str
    task: Task

    @property
    def title(self) -> str:
        """As a heading."""
        return f"{self.prompts_name}, T = {self.task.temperature:g}"


@dataclass(slots=True)
class SectionResult:
    """The turns of one section so far."""

    section: Section
    turns: list[Turn] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Systems that had fewer turns than others, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How long a race may take."""

    total_s: float | None
    """None: as long as it takes."""
    turn_s: float
    """The longest turn."""


TakeTurn = Callable[..., Turn]


def run_race(
    peers: Sequence[Peer],
    sections: Sequence[Section],
    *,
    rounds: int,
    budget: Budget,
    on_turn: Callable[[list[SectionResult], Turn], None],
    take: TakeTurn = take_turn,
    clock: Callable[[], float] = time.monotonic,
) -> list[SectionResult]:
    """Measure; `on_turn` sees everything so far after each turn."""
    begin_s = clock()
    lengths: dict[tuple[int, str], float] = {}
    results = [SectionResult(section) for section in sections]
    for number, result in enumerate(results):
        for round_number in range(1, rounds + 1):
            for peer in peers:
                if peer.name in result.skipped:
                    continue
                if result.section.task.temperature > 0 and not peer.samples:
                    result.skipped[peer.name] = "cannot sample correctly here"
                    continue
                left_s = None if budget.total_s is None else budget.total_s - (clock() - begin_s)
                if left_s is not None and left_s < lengths.get((number, peer.name), 0.0) + _spare(round_number):
                    result.skipped[peer.name] = f"the time ran out before its round {round_number}"
                    continue
                timeout_s = budget.turn_s if left_s is None else max(_LEAST_TIMEOUT_S, min(budget.turn_s, left_s))
                turn = take(peer, result.section.task, round_number=round_number, timeout_s=timeout_s)
                if turn.failure is not None and timeout_s < budget.turn_s and turn.elapsed_s >= timeout_s:
                    result.skipped[peer.name] = f"the time ran out in its round {round_number}"  # no fault of its own
                    continue
                lengths[number, peer.name] = turn.elapsed_s
                result.turns.append(turn)
                if turn.failure is not None:
                    # What failed once is not tried again in this section; its reason is in the turn.
                    result.skipped[peer.name] = f"failed in round {round_number}"
                on_turn(results, turn)
    return results


def _spare(round_number: int) -> float:
    """Seconds that must be left for a turn of unknown length."""
    return _LEAST_TIMEOUT_S if round_number == 1 else 0.0

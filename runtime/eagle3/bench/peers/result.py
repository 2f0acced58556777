"""What the turns of one section say about each system: rates, ratios, τ, agreement, start-up, with their spread.

Knows turns only. A rate is one number a round: all tokens of its answers over all their seconds. A ratio is made of
two rates of the same round, so that what drifts on the machine drops out; medians are taken last. A system that
failed has a reason in place of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from statistics import median
from typing import Any

from eagle3.bench.peers.peer import Peer
from eagle3.bench.peers.race import SectionResult
from eagle3.bench.peers.turn import Answered, Turn

BASES = ("plain", "int8-plain", "llama.cpp-q4_1", "llama.cpp-q8_0", "hf-plain", "vllm-plain")
"""Systems that all others are compared with, where they were measured."""
REFERENCE = "plain"
"""Its texts are what agreement means."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median over rounds with the lowest and the highest."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """One system in one section; what was not measured is None."""

    system: str
    rounds: int
    """Turns that ended well."""
    failure: str | None
    skipped: str | None
    """Why it had fewer turns than others."""
    prompts: int = 0
    output_tokens: int = 0
    """Of one round."""
    decode_tokens_per_s: Spread | None = None
    """Tokens after the first over the time after the first."""
    request_tokens_per_s: Spread | None = None
    """All tokens over the whole time, the prompt's reading included."""
    tau: float | None = None
    decode_ratios: Mapping[str, Spread] | None = None
    """Decode rate over that of each base in the same round."""
    request_ratios: Mapping[str, Spread] | None = None
    first_token_ms: Spread | None = None
    """From a request to its first token, the median over prompts."""
    identical: int | None = None
    """Answers with exactly the token ids of the reference; None above temperature 0."""
    agreement: float | None = None
    """Share of the reference's tokens before the first difference, over all answers."""
    unequal_to: str | None = None
    """The system whose text it must give exactly and did not."""
    ready_s: Spread | None = None
    """From the start of the process until it took requests."""
    start_s: Spread | None = None
    """From the start of the process to its very first token."""
    peak_memory_mb: int | None = None

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def summarise(result: SectionResult, peers: Sequence[Peer]) -> list[Summary]:
    """One summary for each system, in their order."""
    turns = {peer.name: [turn for turn in result.turns if turn.system == peer.name] for peer in peers}
    greedy = result.section.task.temperature == 0
    return [_summary(peer, turns, result.skipped.get(peer.name), greedy=greedy) for peer in peers]


def _summary(peer: Peer, all_turns: Mapping[str, list[Turn]], skipped: str | None, *, greedy: bool) -> Summary:
    done = [turn for turn in all_turns[peer.name] if turn.failure is None]
    failure = next((turn.failure for turn in all_turns[peer.name] if turn.failure is not None), None)
    if not done:
        return Summary(system=peer.name, rounds=0, failure=failure, skipped=skipped)
    first = done[0].answers
    identical, agreement = _agreement(all_turns, first) if greedy else (None, None)
    return Summary(
        system=peer.name,
        rounds=len(done),
        failure=failure,
        skipped=skipped,
        prompts=len(first),
        output_tokens=sum(len(answer.token_ids) for answer in first),
        decode_tokens_per_s=_spread(map(decode_rate, done)),
        request_tokens_per_s=_spread(map(request_rate, done)),
        tau=_tau(done),
        decode_ratios=_ratios(done, all_turns, decode_rate),
        request_ratios=_ratios(done, all_turns, request_rate),
        first_token_ms=_spread(median(answer.first_s for answer in turn.answers) * 1e3 for turn in done),
        identical=identical,
        agreement=agreement,
        unequal_to=_unequal(peer, all_turns) if greedy else None,
        ready_s=_spread(turn.ready_s for turn in done),
        start_s=_spread(turn.first_token_s for turn in done),
        peak_memory_mb=max(turn.peak_memory_mb or 0 for turn in done),
    )


def decode_rate(turn: Turn) -> float | None:
    """Tokens per second after the first token; None if no answer had a second one."""
    seconds = sum(answer.decode_s for answer in turn.answers if answer.decoded)
    return sum(answer.decoded for answer in turn.answers) / seconds if seconds > 0 else None


def request_rate(turn: Turn) -> float | None:
    """Tokens per second of whole requests."""
    seconds = sum(answer.total_s for answer in turn.answers)
    return sum(len(answer.token_ids) for answer in turn.answers) / seconds if seconds > 0 else None


def _tau(turns: Sequence[Turn]) -> float | None:
    answers = [answer for turn in turns for answer in turn.answers]
    cycles = [answer.cycles for answer in answers if answer.cycles is not None]
    if len(cycles) < len(answers) or not sum(cycles):
        return None
    return sum(answer.decoded for answer in answers) / sum(cycles)


def _ratios(
    turns: Sequence[Turn], all_turns: Mapping[str, list[Turn]], rate: Callable[[Turn], float | None]
) -> dict[str, Spread]:
    ratios = {}
    for base in BASES:
        theirs = {turn.round: rate(turn) for turn in all_turns.get(base, ()) if turn.failure is None}
        pairs = [
            mine / other for turn in turns if (other := theirs.get(turn.round)) and (mine := rate(turn)) is not None
        ]
        if (spread := _spread(pairs)) is not None:
            ratios[base] = spread
    return ratios


def _agreement(all_turns: Mapping[str, list[Turn]], answers: Sequence[Answered]) -> tuple[int | None, float | None]:
    reference = _first_answers(all_turns.get(REFERENCE, []))
    if reference is None:
        return None, None
    pairs = list(zip(reference, answers, strict=True))
    identical = sum(theirs.token_ids == mine.token_ids for theirs, mine in pairs)
    total = sum(len(theirs.token_ids) for theirs, _ in pairs)
    return identical, sum(_common(theirs, mine) for theirs, mine in pairs) / total


def _common(one: Answered, other: Answered) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.token_ids, other.token_ids, strict=False)))


def _unequal(peer: Peer, all_turns: Mapping[str, list[Turn]]) -> str | None:
    """The system that every turn of this one must repeat word by word, if any did not."""
    if peer.same_as is None:
        return None
    wanted = _first_answers(all_turns.get(peer.same_as, []))
    if wanted is None:
        return None
    for turn in all_turns[peer.name]:
        given = [answer.token_ids for answer in turn.answers]
        if turn.failure is None and given != [answer.token_ids for answer in wanted]:
            return peer.same_as
    return None


def _first_answers(turns: Sequence[Turn]) -> tuple[Answered, ...] | None:
    return next((turn.answers for turn in turns if turn.failure is None), None)


def _spread(values: Iterable[float | None]) -> Spread | None:
    present = [value for value in values if value is not None]
    return Spread(median(present), min(present), max(present)) if present else None

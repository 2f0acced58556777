"""Who runs in the next step, and who holds which blocks of the cache.

Continuous batching: every step runs one cycle of each decoding sequence and, beside it, reads pieces of prompts.
First come, first served; a long prompt leaves half of a step to the ones behind it. When blocks run out, the
sequence that came last gives its own up and reads its tokens again later. Knows no models and no text.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from eagle3.cache.block_pool import BlockPool
from eagle3.engine.sequence import SequenceState


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `begin` to `end` of a sequence, for the target to read."""

    sequence: SequenceState
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: cycles of sequences that decode, and chunks of prompts."""

    decode: list[SequenceState]
    chunks: list[Chunk]


class Scheduler:
    """Waiting and running sequences over one pool of blocks."""

    def __init__(self, pool: BlockPool, *, step_tokens: int, max_running: int, prefix_reuse: bool = True) -> None:
        self._pool = pool
        self._step_tokens = step_tokens
        self._max_running = max_running
        self._prefix_reuse = prefix_reuse
        self.waiting: deque[SequenceState] = deque()
        self.running: list[SequenceState] = []
        """In the order of arrival."""
        self.preemptions = 0
        self.reused_tokens = 0

    @property
    def num_decoding(self) -> int:
        """Sequences that the next plan would decode, unless blocks run out."""
        return sum(sequence.is_decoding for sequence in self.running)

    @property
    def unread_tokens(self) -> int:
        """Tokens that running sequences still have to read before they decode, and those of the next to come."""
        reading = sum(s.fill_length - s.target_length for s in self.running if not s.is_decoding)
        coming = self.waiting[0].fill_length if self.waiting and len(self.running) < self._max_running else 0
        return reading + coming

    def add(self, sequence: SequenceState) -> None:
        """Queue a new sequence behind all others."""
        self.waiting.append(sequence)

    def remove(self, sequence: SequenceState, *, sound: bool = True) -> None:
        """Take a sequence out, finished or not, and free its blocks; `sound` as in `release_blocks`."""
        if sequence in self.running:
            self.running.remove(sequence)
            sequence.release_blocks(sound=sound)
        else:
            self.waiting.remove(sequence)

    def plan(self, reserved_slots: int, prompt_tokens: int | None = None) -> Plan:
        """The next step; every decoding sequence gets room for `reserved_slots` uncommitted slots.

        It reads at most `prompt_tokens` tokens of prompts, and never more than `step_tokens`.
        """
        decode = [
            sequence
            for sequence in list(self.running)
            if sequence.is_decoding and self._make_room(sequence, sequence.target_length + reserved_slots)
        ]
        self._admit(reserved_slots)
        return Plan(decode, self._chunks(min(prompt_tokens or self._step_tokens, self._step_tokens)))

    def _make_room(self, sequence: SequenceState, slots: int) -> bool:
        """Grow a running sequence's table, at the cost of those that came later; False if it had to give way."""
        if sequence not in self.running:
            return False  # gave way to an earlier one
        while sequence.table.missing_blocks(slots) > self._pool.available:
            last = self.running[-1]
            self._preempt(last)
            if last is sequence:
                return False
        sequence.table.grow(slots)
        return True

    def _preempt(self, sequence: SequenceState) -> None:
        self.running.remove(sequence)
        sequence.release_blocks()
        sequence.preempted = True
        self.waiting.appendleft(sequence)
        self.preemptions += 1

    def _admit(self, reserved_slots: int) -> None:
        while self.waiting and len(self.running) < self._max_running:
            sequence = self.waiting[0]
            covered = sequence.take_up_blocks() if self._prefix_reuse else 0
            needed = sequence.table.missing_blocks(sequence.fill_length + reserved_slots)
            # A block for each running sequence stays, or the newcomer would be thrown out again at once.
            if needed + len(self.running) > self._pool.available and self.running:
                sequence.release_blocks()
                return
            sequence.table.grow(sequence.fill_length)
            self.waiting.popleft()
            self.running.append(sequence)
            if not sequence.preempted:  # what it finds again of its own is no saving
                self.reused_tokens += covered

    def _chunks(self, budget: int) -> list[Chunk]:
        reading = [sequence for sequence in self.running if not sequence.is_decoding]
        most = budget if len(reading) == 1 else -(-budget // 2)
        chunks: list[Chunk] = []
        for sequence in reading:
            size = min(most, budget, sequence.fill_length - sequence.target_length)
            if size > 0:
                chunks.append(Chunk(sequence, sequence.target_length, sequence.target_length + size))
                budget -= size
        return chunks

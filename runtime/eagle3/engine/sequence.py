"""One answer in progress inside the batched engine: its tokens, its blocks, and how far both models have read.

Knows no scheduling and no HTTP. Invariant: the target's cache holds `target_length` tokens; while the sequence
decodes, that is every token but the last, which is the next root.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eagle3.cache.block_table import BlockTable
from eagle3.draft.proposer import DraftState
from eagle3.draft.suffix_drafter import SuffixState
from eagle3.engine.answer import TokenLogprobs
from eagle3.engine.ending import Ending
from eagle3.engine.interface import GenerationRequest
from eagle3.engine.stats import DecodeStats
from eagle3.sampling.distribution import TokenDistribution


@dataclass(kw_only=True, slots=True, eq=False)
class SequenceState:
    """State of one request from its arrival to its last token; preemption takes its blocks, never its tokens."""

    request: GenerationRequest
    distribution: TokenDistribution
    ending: Ending
    table: BlockTable
    draft: DraftState | None
    """None: no draft model guesses."""
    arrived_s: float
    """Clock reading at its arrival."""
    token_ids: list[int]
    """Prompt and answer so far."""
    suffix: SuffixState | None = None
    """None: no repetitions are looked for. It follows from the tokens alone, so preemption leaves it as it is."""
    target_length: int = 0
    preempted: bool = False
    """Whether it has had to read its tokens again."""
    stats: DecodeStats = field(default_factory=DecodeStats)
    logprobs: list[TokenLogprobs] = field(default_factory=list)

    @property
    def num_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt_ids)

    @property
    def generated_ids(self) -> list[int]:
        """Tokens of the answer so far."""
        return self.token_ids[self.num_prompt :]

    @property
    def fill_length(self) -> int:
        """Tokens that the target has to read before the sequence can decode."""
        return self.num_prompt if len(self.token_ids) == self.num_prompt else len(self.token_ids) - 1

    @property
    def is_decoding(self) -> bool:
        """Whether the next cycle can be run; else tokens have to be read first."""
        return len(self.token_ids) > self.num_prompt and self.target_length == len(self.token_ids) - 1

    def take_up_blocks(self) -> int:
        """Reuse what the cache still holds of the tokens; returns how many tokens that covers."""
        covered = self.table.reuse(self.token_ids[: self.fill_length], with_draft=self.draft is not None)
        self.target_length = covered
        if self.draft is not None:
            self.draft.length = covered
        return covered

    def register_blocks(self) -> None:
        """Make full blocks findable for other sequences."""
        draft_length = None if self.draft is None else self.draft.length
        self.table.register(self.token_ids, target_length=self.target_length, draft_length=draft_length)

    def release_blocks(self, *, sound: bool = True) -> None:
        """Give up everything that the caches hold of this sequence, and forget how far they had read.

        `sound` False says that a model broke over it: no later request may reuse what was computed.
        """
        if sound:
            # Blocks that only the draft has not filled are of use to plain requests.
            self.table.register(self.token_ids, target_length=self.target_length, draft_length=None)
        self.table.release(keep=sound)
        self.target_length = 0
        if self.draft is not None:
            self.draft.reset()

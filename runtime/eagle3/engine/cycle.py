"""One step of speculative decoding for many sequences: draft, verify, accept, compact, beside chunks of prompts.

The page to read first. All rows, of every tree and every chunk, go through the target in one pass. Plain decoding
is the cycle of a bare root. Knows no text, no ends of text and no scheduling. N nodes of a tree, T rows of the
pass, F tap features, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eagle3.cache.paged_cache import PagedCache
from eagle3.cache.sequence_rows import SequenceRows, causal_mask
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import Proposer, Wish
from eagle3.engine.scheduler import Chunk, Plan
from eagle3.engine.sequence import SequenceState
from eagle3.errors import Eagle3Error, NumericalError
from eagle3.models.row_target import RowTarget
from eagle3.models.target import Target
from eagle3.tree.draft_tree import DraftTree, ancestor_mask
from eagle3.tree.growth import TreeGrowth
from eagle3.verify.verification import Verification, verify

# Accepted tokens that may wait for the draft while nothing is drafted; that many at once cost it little.
_MOST_PENDING = 256


@dataclass(frozen=True, slots=True)
class Block:
    """What a step adds to one sequence."""

    token_ids: tuple[int, ...]
    """Accepted tokens and the bonus token; or the first token of the answer."""
    logits_SV: Tensor
    """The target's own logits from which each of them was chosen."""
    cycle: tuple[DraftTree, Verification] | None
    """The tree and what was accepted of it; None where a prompt's last chunk gave the first token."""

    @property
    def drafted(self) -> int:
        """Nodes verified, the root not counted."""
        return len(self.cycle[0]) - 1 if self.cycle else 0

    @property
    def num_accepted(self) -> int:
        """Drafted tokens accepted; the bonus token is not one of them."""
        return self.cycle[1].num_accepted if self.cycle else 0


@dataclass(slots=True)
class StepResult:
    """What one step did."""

    blocks: list[tuple[SequenceState, Block]] = field(default_factory=list)
    """Sequences that got tokens; one whose chunk was not its last gets none."""
    failed: list[tuple[SequenceState, Eagle3Error]] = field(default_factory=list)
    """Sequences that cannot go on."""
    draft_s: float = 0.0
    """Seconds spent observing accepted tokens and drafting trees."""
    verify_s: float = 0.0
    """Seconds spent in the target and in choosing tokens."""
    catch_up_s: float = 0.0
    """The part of `draft_s` in which the draft read what plain steps had left to it: no cost of this step's cycles."""


class StepRunner:
    """Runs steps of one target and, if there is a draft, its proposer, on their caches."""

    def __init__(
        self,
        target: Target | RowTarget,
        cache: PagedCache,
        proposer: Proposer | None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._target = target
        self._cache = cache
        self._proposer = proposer
        self._clock = clock
        self._device = target.device

    @torch.inference_mode()
    def run(self, plan: Plan, shape: Speculation | None) -> StepResult:
        """Run the plan; `shape` None drafts nothing. Tokens, lengths and caches of the sequences move on."""
        result = StepResult()
        started = self._clock()
        trees = self._draft(plan.decode, shape, result)
        drafted_at = self._clock()
        if not trees and not plan.chunks:
            return result

        hidden_TH, taps_TF = self._forward(trees, plan.chunks)
        tree_rows = sum(len(tree) for _, tree in trees)
        logits_TV, chunk_rows = self._logits(hidden_TH, tree_rows, plan.chunks)
        chooser = _Chooser(logits_TV)
        self._accept(trees, taps_TF, chooser, result)
        observed_from = self._read(plan.chunks, taps_TF[tree_rows:], chunk_rows, chooser, result)
        self._compact(result)
        result.draft_s = drafted_at - started
        result.verify_s = self._clock() - drafted_at
        if self._proposer is not None:
            self._proposer.observe([s.draft for s in observed_from if s.draft is not None])
        return result

    @property
    def num_slots(self) -> int:
        """Slots of the caches."""
        return self._cache.keys_LGCD.shape[2]

    @torch.inference_mode()
    def verify_seconds(self, rows: int) -> float:
        """Seconds of one pass of the target over `rows` rows of one sequence; overwrites the cache's first slots."""
        started = self._clock()
        output = self._target(
            torch.zeros(1, rows, dtype=torch.int64, device=self._device),
            torch.arange(rows, device=self._device)[None],
            self._cache.attend([SequenceRows(range(rows), range(rows), causal_mask(rows))]),
        )
        _Chooser(self._target.logits(output.hidden_BSH[0]))
        return self._clock() - started

    @torch.inference_mode()
    def draft_seconds(self, rows: int) -> float:
        """Seconds of one pass of the draft over `rows` rows, 0 without a draft; overwrites its first slots."""
        if self._proposer is None:
            return 0.0
        started = self._clock()
        self._proposer.rehearse(rows)
        return self._clock() - started

    def _draft(
        self, decode: Sequence[SequenceState], shape: Speculation | None, result: StepResult
    ) -> list[tuple[SequenceState, DraftTree]]:
        """A tree for each sequence: a bare root where nothing is drafted."""
        wishes: dict[int, Wish] = {}
        late = []
        drafted: dict[int, DraftTree | NumericalError] = {}
        for sequence in decode:
            depth = sequence.ending.remaining - 1
            draft, suffix, root_id = sequence.draft, sequence.suffix, sequence.token_ids[-1]
            if shape is not None and depth >= 1:
                chain = suffix.propose(sequence.token_ids, limit=depth) if suffix else None
                if suffix and chain and (draft is None or suffix.suffices(chain)):
                    drafted[id(sequence)] = TreeGrowth(shape, root_id, chain).tree()
                elif draft is not None:
                    wishes[id(sequence)] = Wish(draft, root_id, shape.limited(depth=depth), chain)
            if draft is not None and id(sequence) not in wishes and draft.pending_rows >= _MOST_PENDING:
                late.append(draft)
        if self._proposer is not None:
            if late or any(len(wish.state.pending) > 1 for wish in wishes.values()):
                started = self._clock()
                self._proposer.catch_up(late + [wish.state for wish in wishes.values()])
                result.catch_up_s = self._clock() - started
            self._proposer.observe([wish.state for wish in wishes.values()])
            drafted |= zip(wishes, self._proposer.propose(list(wishes.values())), strict=True)
        trees = []
        for sequence in decode:
            tree = drafted.get(id(sequence)) or DraftTree.root_only(sequence.token_ids[-1])
            if isinstance(tree, DraftTree):
                trees.append((sequence, tree))
            else:
                result.failed.append((sequence, tree))
        return trees

    def _forward(
        self, trees: Sequence[tuple[SequenceState, DraftTree]], chunks: Sequence[Chunk]
    ) -> tuple[Tensor, Tensor]:
        """One pass over the rows of all trees, then of all chunks; hidden states [T, H] and features [T, F]."""
        rows: list[SequenceRows] = []
        token_ids: list[int] = []
        positions: list[int] = []
        for sequence, tree in trees:
            begin = sequence.target_length
            mask = ancestor_mask(tree.parents) if len(tree) > 1 else None
            rows.append(_rows(sequence, begin, begin + len(tree), mask))
            token_ids += tree.token_ids
            positions += [begin + depth for depth in tree.depths]
        for chunk in chunks:
            rows.append(_rows(chunk.sequence, chunk.begin, chunk.end, causal_mask(chunk.end - chunk.begin)))
            token_ids += chunk.sequence.token_ids[chunk.begin : chunk.end]
            positions += range(chunk.begin, chunk.end)
        output = self._target(
            torch.tensor([token_ids], device=self._device),
            torch.tensor([positions], device=self._device),
            self._cache.attend(rows),
        )
        return output.hidden_BSH[0], output.taps_BSF[0]

    def _logits(self, hidden_TH: Tensor, tree_rows: int, chunks: Sequence[Chunk]) -> tuple[Tensor, dict[int, int]]:
        """Logits of every tree row and of each prompt's last token; the latter's rows by chunk number."""
        wanted = list(range(tree_rows))
        chunk_rows: dict[int, int] = {}
        end = tree_rows
        for number, chunk in enumerate(chunks):
            end += chunk.end - chunk.begin
            if chunk.end == len(chunk.sequence.token_ids):
                chunk_rows[number] = len(wanted)
                wanted.append(end - 1)
        if len(wanted) < len(hidden_TH):
            hidden_TH = hidden_TH[torch.tensor(wanted, dtype=torch.int64, device=self._device)]
        return self._target.logits(hidden_TH), chunk_rows

    def _accept(
        self,
        trees: Sequence[tuple[SequenceState, DraftTree]],
        taps_TF: Tensor,
        chooser: _Chooser,
        result: StepResult,
    ) -> None:
        """Verify every tree, and give its sequence the accepted tokens and their features."""
        first = 0
        for sequence, tree in trees:
            choose = chooser.at(sequence, first)
            try:
                outcome = verify(tree, choose)
            except Eagle3Error as error:
                result.failed.append((sequence, error))
            else:
                picked = torch.tensor([first + node for node in outcome.path], device=self._device)
                if sequence.draft is not None:
                    sequence.draft.add(taps_TF[picked], outcome.emitted_ids)
                sequence.token_ids += outcome.emitted_ids
                result.blocks.append((sequence, Block(outcome.emitted_ids, chooser.logits_TV[picked], (tree, outcome))))
            first += len(tree)

    def _read(
        self,
        chunks: Sequence[Chunk],
        taps_TF: Tensor,
        logit_rows: dict[int, int],
        chooser: _Chooser,
        result: StepResult,
    ) -> list[SequenceState]:
        """Note what was read of the prompts, and choose the first token where one was read to its end."""
        observed: list[SequenceState] = []
        begin = 0
        for number, chunk in enumerate(chunks):
            sequence = chunk.sequence
            end = begin + chunk.end - chunk.begin
            sequence.target_length = chunk.end
            if number in logit_rows:
                row = logit_rows[number]
                try:
                    first_id = chooser.at(sequence, row)(0, ())
                except Eagle3Error as error:
                    result.failed.append((sequence, error))
                    begin = end
                    continue
                sequence.token_ids.append(first_id)
                result.blocks.append((sequence, Block((first_id,), chooser.logits_TV[row : row + 1], None)))
            if sequence.draft is not None:
                # The last feature of a chunk is followed by the next token of the prompt, or by the one just chosen.
                following = sequence.token_ids[chunk.begin + 1 : chunk.end + 1]
                sequence.draft.add(taps_TF[begin:end], following)
                observed.append(sequence)
            begin = end
        return observed

    def _compact(self, result: StepResult) -> None:
        """Keep the slots of the accepted paths, in path order, behind the committed ones."""
        sources: list[int] = []
        destinations: list[int] = []
        for sequence, block in result.blocks:
            if block.cycle is None:
                continue
            tree, outcome = block.cycle
            begin = sequence.target_length
            slots = sequence.table.slots(begin, begin + len(tree))
            for place, node in enumerate(outcome.path):
                if node != place:
                    sources.append(slots[node])
                    destinations.append(slots[place])
            sequence.target_length += len(outcome.path)
        self._cache.move(sources, destinations)


class _Chooser:
    """Chooses tokens from the logits of a pass; plain argmaxes are taken for all rows at once."""

    def __init__(self, logits_TV: Tensor) -> None:
        self.logits_TV = logits_TV
        # One number tells: a sum is NaN or infinite as soon as one logit is. A sum that overflows is taken again.
        finite = torch.isfinite(logits_TV.sum(dim=-1))
        if not finite.all():
            finite = torch.isfinite(logits_TV.sum(dim=-1, dtype=torch.float64))
        self._finite: list[bool] = finite.tolist()
        self._argmax: list[int] = logits_TV.argmax(dim=-1).tolist()

    def at(self, sequence: SequenceState, first_row: int) -> Callable[[int, Sequence[int]], int]:
        """The `Choose` of a sequence whose root is at this row."""
        greedy = sequence.distribution.is_argmax
        generated = [] if greedy else sequence.generated_ids

        def choose(node: int, accepted: Sequence[int]) -> int:
            row = first_row + node
            if not self._finite[row]:
                raise NumericalError("the target produced NaN or infinite logits; check its weights and dtype")
            if greedy:
                return self._argmax[row]
            return sequence.distribution.choose(self.logits_TV[row], (*generated, *accepted))

        return choose


def _rows(sequence: SequenceState, begin: int, end: int, mask: Tensor | None) -> SequenceRows:
    return SequenceRows(sequence.table.slots(0, end), sequence.table.slots(begin, end), mask)

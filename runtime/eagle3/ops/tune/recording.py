"""Asks the drafters for their guess at every token of answers that are known, as wide and deep as any shape to try.

The answers are the target's own, so a node is right where it carries the next token: nothing has to be verified, and
no shape's cycles have to be run. Knows no time. Invariant: the draft is told what it would be told while decoding.
S tokens of a text, F features of the target.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3.cache.block_pool import BlockPool
from eagle3.cache.block_table import BlockTable
from eagle3.config.speculation import MAX_NODES, Speculation
from eagle3.draft.proposer import DraftState, Proposer, Wish
from eagle3.draft.suffix_drafter import SuffixDrafter
from eagle3.engine.loading import Models
from eagle3.errors import NumericalError
from eagle3.models.attention import causal_attend
from eagle3.models.draft import Draft
from eagle3.models.row_draft import RowDraft
from eagle3.models.row_layers import can_run
from eagle3.models.target import Target
from eagle3.ops.tune.guess import ChainGuess, Place, RecordedText, TreeGuess
from eagle3.tree.chain import Chain
from eagle3.tree.draft_tree import DraftTree

_BLOCK_TOKENS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredPrompt:
    """A prompt and what the target answers at temperature 0."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    max_tokens: int
    """Tokens that the answer could have had."""

    @property
    def cycle_tokens(self) -> int:
        """Tokens that come from cycles: all but the first, which the prompt's reading gives."""
        return len(self.answer_ids) - 1


class Recorder:
    """Records texts one after another: what the suffix drafter learns of one is used for the next.

    Of the end of an answer it learns a little more than while decoding, where nobody asks it after the last cycle.
    """

    def __init__(self, models: Models, shape: Speculation) -> None:
        """`shape` has the depth and the top-k of the widest tree to be replayed."""
        self._target = models.target
        self._draft = models.draft
        self._wide = shape.model_copy(update={"nodes": MAX_NODES, "min_probability": 0.0})
        self._alone = SuffixDrafter(shape.model_copy(update={"drafters": ("suffix",)}))
        self._beside = SuffixDrafter(shape.model_copy(update={"drafters": ("eagle3", "suffix")}))

    @torch.inference_mode()
    def record(self, text: AnsweredPrompt) -> RecordedText:
        """The guesses at every token of one answer; NumericalError where the draft breaks."""
        token_ids = [*text.prompt_ids, *text.answer_ids]
        alone, beside = (suffix.begin(len(text.prompt_ids)) for suffix in (self._alone, self._beside))
        reader = None if self._draft is None else _DraftReader(self._target, self._draft, token_ids, self._wide)
        places: list[Place] = []
        for index in range(text.cycle_tokens):
            end = len(text.prompt_ids) + index + 1
            following = token_ids[end:]
            limit = max(0, text.max_tokens - index - 2)
            own, chain = (state.propose(token_ids[:end], limit=limit) if limit else None for state in (alone, beside))
            guess = ChainGuess.of(chain, following) if chain else None
            drafted: TreeGuess | None = None
            joined: TreeGuess | None = None
            if reader is not None and limit:
                reader.read(end)
                drafted = TreeGuess.of(reader.guess(None), following, None)
                joined = TreeGuess.of(reader.guess(chain), following, guess) if chain else None
            by_itself = ChainGuess.of(own, following) if own else None
            places.append(Place(limit=limit, alone=by_itself, beside=guess, drafted=drafted, joined=joined))
        return RecordedText(tuple(places))


class _DraftReader:
    """The draft on a text whose every token is known."""

    def __init__(self, target: Target, draft: Draft, token_ids: list[int], wide: Speculation) -> None:
        ids_BS = torch.tensor([token_ids[:-1]], device=target.device)
        positions_BS = torch.arange(ids_BS.shape[1], device=target.device)[None]
        self._taps_SF: Tensor = target(ids_BS, positions_BS, causal_attend).taps_BSF[0]
        self._token_ids = token_ids
        self._wide = wide
        slots = len(token_ids) + wide.top_k * wide.depth
        blocks = -(-slots // _BLOCK_TOKENS)
        self._proposer = Proposer(RowDraft(draft) if can_run(draft) else draft, blocks * _BLOCK_TOKENS)
        table = BlockTable(BlockPool(blocks), _BLOCK_TOKENS)
        table.grow(slots)
        self._state = DraftState(table)

    def read(self, end: int) -> None:
        """Observe everything before the root, which is the last of the first `end` tokens."""
        begin = self._state.length
        self._state.add(self._taps_SF[begin : end - 1], self._token_ids[begin + 1 : end])
        self._proposer.observe([self._state])

    def guess(self, chain: Chain | None) -> DraftTree:
        """The tree below the last token that was read."""
        root_id = self._token_ids[self._state.length]
        (tree,) = self._proposer.propose([Wish(self._state, root_id, self._wide, chain)])
        if isinstance(tree, NumericalError):
            raise tree
        return tree

"""One cycle of speculative decoding: draft, verify, accept, compact. Plain decoding is the cycle of a bare root.

Knows no text and no end of text; `Decoder` is one answer in progress as token ids. Invariant: the target's
cache holds every emitted token but the last, which is the next root. N tree nodes, F tap features.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3.cache.sequence_cache import SequenceCache
from eagle3.draft.proposer import Proposer
from eagle3.models.target import Target
from eagle3.sampling.distribution import TokenDistribution
from eagle3.tree.draft_tree import DraftTree, ancestor_mask
from eagle3.verify.verification import verify

_PREFILL_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Block:
    """What a prefill or a cycle adds to the text."""

    token_ids: tuple[int, ...]
    """Accepted tokens and the bonus token."""
    logits_SV: Tensor
    """The target's own logits from which each of them was chosen."""
    drafted: int
    """Nodes verified, the root not counted."""
    draft_s: float
    """Seconds spent drafting for this block and observing it."""
    verify_s: float
    """Seconds spent in the target and in choosing tokens."""

    @property
    def num_accepted(self) -> int:
        """Drafted tokens accepted; the bonus token is not one of them."""
        return len(self.token_ids) - 1


class Decoder:
    """One answer in progress."""

    def __init__(
        self,
        target: Target,
        proposer: Proposer | None,
        distribution: TokenDistribution,
        *,
        prefill_chunk: int = _PREFILL_CHUNK,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._target = target
        self._proposer = proposer
        self._distribution = distribution
        self._prefill_chunk = prefill_chunk
        self._clock = clock
        weight = target.norm.weight
        self._device = weight.device
        self.cache = SequenceCache(
            num_layers=target.arch.num_layers,
            num_kv_heads=target.arch.num_kv_heads,
            head_dim=target.arch.head_dim,
            dtype=weight.dtype,
            device=weight.device,
        )
        self._generated: list[int] = []

    @torch.inference_mode()
    def prefill(self, prompt_ids: Sequence[int]) -> Block:
        """Read the prompt in chunks and choose the first token."""
        started = self._clock()
        draft_s = 0.0
        for begin in range(0, len(prompt_ids), self._prefill_chunk):
            chunk = prompt_ids[begin : begin + self._prefill_chunk]
            mask = torch.ones(len(chunk), len(chunk), dtype=torch.bool).tril() if len(chunk) > 1 else None
            hidden_SH, taps_SF = self._forward(chunk, range(begin, begin + len(chunk)), mask)
            self.cache.commit(range(len(chunk)))
            # The last feature of a chunk is followed by the next prompt token; only the last chunk's by a new one.
            following = list(prompt_ids[begin + 1 : begin + 1 + len(chunk)])
            if begin + len(chunk) == len(prompt_ids):
                logits_V = self._target.logits(hidden_SH[-1])
                following.append(self._distribution.choose(logits_V, ()))
            before = self._clock()
            if self._proposer is not None:
                self._proposer.observe(taps_SF, following)
            draft_s += self._clock() - before
        first_id = following[-1]
        self._generated.append(first_id)
        elapsed = self._clock() - started
        return Block((first_id,), logits_V[None], drafted=0, draft_s=draft_s, verify_s=elapsed - draft_s)

    @torch.inference_mode()
    def cycle(self, max_tokens: int) -> Block:
        """Emit between one token and `max_tokens`: draft a tree, verify it, keep the accepted path."""
        started = self._clock()
        tree = self._propose(max_tokens)
        drafted_at = self._clock()

        root_position = self.cache.length
        positions = [root_position + depth for depth in tree.depths]
        mask = ancestor_mask(tree.parents) if len(tree) > 1 else None
        hidden_NH, taps_NF = self._forward(tree.token_ids, positions, mask)
        logits_NV = self._target.logits(hidden_NH)
        result = verify(
            tree,
            lambda node, accepted: self._distribution.choose(logits_NV[node], (*self._generated, *accepted)),
        )
        self.cache.commit(result.path)
        verified_at = self._clock()

        path = torch.tensor(result.path, device=self._device)
        if self._proposer is not None:
            self._proposer.observe(taps_NF[path], result.emitted_ids)
        self._generated += result.emitted_ids
        return Block(
            result.emitted_ids,
            logits_NV[path],
            drafted=len(tree) - 1,
            draft_s=drafted_at - started + self._clock() - verified_at,
            verify_s=verified_at - drafted_at,
        )

    def _propose(self, max_tokens: int) -> DraftTree:
        root_id = self._generated[-1]
        if self._proposer is None:
            return DraftTree.root_only(root_id)
        return self._proposer.propose(root_id, max_depth=max_tokens - 1)

    def _forward(
        self, token_ids: Sequence[int], positions: Sequence[int], mask_SS: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        attend = self.cache.reserve(mask_SS)
        output = self._target(
            torch.tensor([list(token_ids)], device=self._device),
            torch.tensor([list(positions)], device=self._device),
            attend,
        )
        return output.hidden_BSH[0], output.taps_BSF[0]

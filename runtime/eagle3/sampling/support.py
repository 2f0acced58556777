"""The tokens that a draw chooses among: temperature, then top-k, top-p and min-p on the scores of one token.

Cuts are ids instead of masks, so that a small support costs little whatever the vocabulary. V vocabulary,
S tokens of the support, N scores handed from one cut to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eagle3.sampling.params import SamplingParams

# Smaller ones, which float32 cannot hold, act alike: the whole probability is on the largest logit.
_LEAST_TEMPERATURE = 1e-30

# Sorting a whole vocabulary takes milliseconds; the tokens that top-p keeps are nearly always among so many.
_NUCLEUS_CANDIDATES = 1024


@dataclass(frozen=True, slots=True)
class Support:
    """What is left of a vocabulary."""

    scores_S: Tensor
    """Logits over the temperature, the largest 0; float32."""
    ids_S: Tensor | None
    """Token ids of the scores, int64; None: all in their order."""

    def probabilities(self) -> Tensor:
        """float64 [S]."""
        return self.scores_S.softmax(dim=-1, dtype=torch.float64)

    def restricted(self, kept: Tensor) -> Support:
        """The part whose places in this support are `kept`."""
        return Support(self.scores_S[kept], kept if self.ids_S is None else self.ids_S[kept])


def support(scores_V: Tensor, params: SamplingParams) -> Support:
    """What `params` leaves of the scores; at least one token."""
    # The largest becomes 0, so that no temperature above 0 divides into infinity.
    scores_V = (scores_V - scores_V.max()) / max(params.temperature, _LEAST_TEMPERATURE)
    left = Support(scores_V, None)
    if 0 < params.top_k < len(scores_V):
        left = left.restricted(_top_k(left.scores_S, params.top_k))
    if params.top_p < 1.0:
        left = left.restricted(nucleus(left.scores_S, params.top_p))
    if params.min_p > 0.0:
        probs = left.scores_S.softmax(dim=-1)
        left = left.restricted((probs >= params.min_p * probs.max()).nonzero().flatten())
    return left


def _top_k(scores_N: Tensor, top_k: int) -> Tensor:
    """Places of the `top_k` largest in ascending order; those that tie with the last stay too."""
    values, order = scores_N.topk(top_k + 1)
    if bool(values[top_k] < values[top_k - 1]):
        return order[:top_k].sort().values
    return (scores_N >= values[top_k - 1]).nonzero().flatten()


def nucleus(scores_N: Tensor, top_p: float, *, candidates: int = _NUCLEUS_CANDIDATES) -> Tensor:
    """Places, in ascending order, of the fewest most probable that reach `top_p`; of equals the first are taken."""
    if candidates < len(scores_N):
        top = scores_N.max()
        whole = (scores_N - top).double().exp().sum()
        while candidates < len(scores_N):
            ranked, order = scores_N.topk(candidates)
            probs = (ranked - top).double().exp() / whole
            kept = int((probs.cumsum(dim=-1) - probs < top_p).sum())
            if kept < candidates:
                if bool(ranked[kept] < ranked[kept - 1]):
                    return order[:kept].sort().values
                break  # equals on both sides of the cut are left to the stable sort
            candidates *= 8
    ranked, order = scores_N.sort(descending=True, stable=True)
    probs = ranked.softmax(dim=-1, dtype=torch.float64)
    return order[probs.cumsum(dim=-1) - probs < top_p].sort().values

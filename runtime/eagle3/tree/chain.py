"""Tokens guessed without a draft model, to be grafted onto a tree. Knows not where they come from. C tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Chain:
    """A guess at the next tokens of a text."""

    token_ids: tuple[int, ...]
    """Target token ids [C], the first follows the root."""
    log_probs: tuple[float, ...]
    """Log-probability [C] that each is accepted once all before it are; never above 0."""

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.log_probs) > 0, "one log-probability for each token"
        assert all(log_prob <= 0 for log_prob in self.log_probs), "probabilities are at most 1"

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def expected_accepted(self) -> float:
        """How many of the tokens are expected to be accepted."""
        return math.fsum(math.exp(score) for score in accumulate(self.log_probs))

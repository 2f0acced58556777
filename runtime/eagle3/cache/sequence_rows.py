"""The rows of one sequence in a pass: which slots they fill and which they see. Knows no cache.

R slots that the rows may see or not, S rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Slots = range | list[int]


@dataclass(frozen=True, slots=True)
class SequenceRows:
    """The rows of one sequence in a pass."""

    seen: Slots
    """Slots that the rows attend to, new ones included: all of the sequence's committed and reserved slots."""
    new: Slots
    """The slots that the rows fill, one each; the last of `seen`."""
    mask_SR: Tensor | None
    """Bool; which of the last R slots of `seen` each row attends to, all earlier ones being seen. None: all."""


def causal_mask(rows: int) -> Tensor | None:
    """Mask of `rows` successive positions: each sees the ones before it and itself; a single one sees everything."""
    return torch.ones(rows, rows, dtype=torch.bool).tril() if rows > 1 else None

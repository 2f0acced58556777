"""Which slots each row of a pass fills and sees, as arrays for the row kernels. Knows no tensors of keys or values.

T rows of a pass, C slots seen by a row at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eagle3.cache.sequence_rows import SequenceRows

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowSlots:
    """Slots of every row."""

    new_T: Indices
    """The slot that each row fills."""
    seen_TC: Indices
    """The slots that each row sees, in the order of their positions; rows beyond `count_T` are undefined."""
    count_T: Indices
    """How many slots each row sees."""


def row_slots(sequences: Sequence[SequenceRows]) -> RowSlots:
    """Slots of the rows of these sequences, in this order."""
    total = sum(len(rows.new) for rows in sequences)
    new_T = np.empty(total, np.int64)
    seen_TC = np.empty((total, max(len(rows.seen) for rows in sequences)), np.int64)
    count_T = np.empty(total, np.int64)
    begin = 0
    for rows in sequences:
        end = begin + len(rows.new)
        new_T[begin:end] = _array(rows.new)
        seen = _array(rows.seen)
        if rows.mask_SR is None:
            seen_TC[begin:end, : len(seen)] = seen
            count_T[begin:end] = len(seen)
        else:
            mask = rows.mask_SR.numpy()
            always = len(seen) - mask.shape[1]
            seen_TC[begin:end, :always] = seen[:always]
            counts = mask.sum(axis=1)
            count_T[begin:end] = always + counts
            for row, (visible, count) in enumerate(zip(mask, counts, strict=True), start=begin):
                seen_TC[row, always : always + count] = seen[always:][visible]
        begin = end
    return RowSlots(new_T=new_T, seen_TC=seen_TC, count_T=count_T)


def _array(slots: range | list[int]) -> Indices:
    return np.arange(slots.start, slots.stop) if isinstance(slots, range) else np.array(slots, dtype=np.int64)

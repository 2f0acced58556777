"""Keys and values of many sequences in one store of slots, and the attention of one ragged pass over them.

Rows of all sequences lie side by side in one batch of size 1; each row attends to its own sequence alone. Knows
no tokens, blocks or models. L layers, G key/value heads, H query heads, C slots, D head width, T rows of a
pass, S rows of one sequence.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from eagle3.cache.row_slots import RowSlots, row_slots
from eagle3.cache.sequence_rows import SequenceRows


class PagedCache:
    """KV storage of every layer. A slot's contents are whatever was last written to it."""

    def __init__(
        self,
        *,
        num_slots: int,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (num_layers, num_kv_heads, num_slots, head_dim)
        self.keys_LGCD = torch.empty(shape, dtype=dtype, device=device)
        self.values_LGCD = torch.empty(shape, dtype=dtype, device=device)

    @cached_property
    def arrays(self) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Keys and values [G, C, D] of each layer of a float32 cache on the CPU; not copies."""
        return [(keys.numpy(), values.numpy()) for keys, values in zip(self.keys_LGCD, self.values_LGCD, strict=True)]

    @staticmethod
    def bytes_per_slot(*, num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype) -> int:
        """Bytes of keys and values that one position takes."""
        return 2 * num_layers * num_kv_heads * head_dim * dtype.itemsize

    def attend(self, sequences: Sequence[SequenceRows]) -> RaggedAttend:
        """The attention of one pass over the rows of these sequences, in this order."""
        return RaggedAttend(self, sequences)

    def move(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Copy the contents of slots to other slots; all are read before any is written."""
        if not sources:
            return
        device = self.keys_LGCD.device
        source = torch.tensor(sources, device=device)
        destination = torch.tensor(destinations, device=device)
        for store in (self.keys_LGCD, self.values_LGCD):
            store.index_copy_(2, destination, store.index_select(2, source))


class RaggedAttend:
    """An `Attend` of the models for one pass; batch size 1, T rows."""

    def __init__(self, cache: PagedCache, sequences: Sequence[SequenceRows]) -> None:
        self._cache = cache
        self._sequences = sequences
        self._prepared = False
        self._new: slice | Tensor = slice(0, 0)
        self._parts: list[_Part] = []

    def _prepare(self) -> None:
        cache, sequences = self._cache, self._sequences
        self._prepared = True
        device = cache.keys_LGCD.device
        if len(sequences) == 1 and isinstance(sequences[0].new, range):
            self._new = _as_slice(sequences[0].new)
        else:
            self._new = torch.tensor([slot for rows in sequences for slot in rows.new], device=device)
        begin = 0
        for rows in sequences:
            end = begin + len(rows.new)
            self._parts.append(_Part(begin, end, rows, cache.keys_LGCD))
            begin = end

    def __call__(self, layer: int, query_1HTD: Tensor, key_1GTD: Tensor, value_1GTD: Tensor) -> Tensor:
        """Store the keys and values of `layer` and return the attention output [1, H, T, D]."""
        if not self._prepared:
            self._prepare()
        keys_GCD = self._cache.keys_LGCD[layer]
        values_GCD = self._cache.values_LGCD[layer]
        if isinstance(self._new, slice):
            keys_GCD[:, self._new] = key_1GTD[0]
            values_GCD[:, self._new] = value_1GTD[0]
        else:
            keys_GCD.index_copy_(1, self._new, key_1GTD[0])
            values_GCD.index_copy_(1, self._new, value_1GTD[0])
        outputs = [part.attend(query_1HTD, keys_GCD, values_GCD) for part in self._parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)

    @property
    def arrays(self) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """The cache's arrays, for kernels that read and write them themselves."""
        return self._cache.arrays

    @cached_property
    def rows(self) -> RowSlots:
        """Slots of each row, for such kernels."""
        return row_slots(self._sequences)

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """First and last row + 1 of each sequence."""
        ends = list(itertools.accumulate(len(rows.new) for rows in self._sequences))
        return list(zip([0, *ends], ends, strict=False))

    def attend_part(self, number: int, layer: int, query_1HTD: Tensor) -> Tensor:
        """Attention output [1, H, S, D] of the rows of one sequence, whose keys and values are stored already."""
        if not self._prepared:
            self._prepare()
        return self._parts[number].attend(query_1HTD, self._cache.keys_LGCD[layer], self._cache.values_LGCD[layer])


class _Part:
    """The attention of one sequence's rows."""

    __slots__ = ("_begin", "_end", "_groups", "_mask", "_seen")

    def __init__(self, begin: int, end: int, rows: SequenceRows, store_LGCD: Tensor) -> None:
        self._begin = begin
        self._end = end
        self._groups = store_LGCD.shape[1]
        self._seen: slice | Tensor = (
            _as_slice(rows.seen) if isinstance(rows.seen, range) else torch.tensor(rows.seen, device=store_LGCD.device)
        )
        self._mask: Tensor | None = None
        if rows.mask_SR is not None:
            # Added to the scores: 0 where a row sees a slot, -inf where it does not.
            bias = torch.zeros(rows.mask_SR.shape, dtype=store_LGCD.dtype).masked_fill_(~rows.mask_SR, float("-inf"))
            self._mask = F.pad(bias, (len(rows.seen) - bias.shape[1], 0)).to(store_LGCD.device)

    def attend(self, query_1HTD: Tensor, keys_GCD: Tensor, values_GCD: Tensor) -> Tensor:
        if isinstance(self._seen, slice):
            keys, values = keys_GCD[:, self._seen], values_GCD[:, self._seen]
        else:
            keys, values = keys_GCD.index_select(1, self._seen), values_GCD.index_select(1, self._seen)
        query = query_1HTD[:, :, self._begin : self._end]
        _, heads, steps, width = query.shape
        share = heads // self._groups
        # The query heads of a group are folded into the row axis: each key is read once for all of them.
        folded = query.reshape(1, self._groups, share * steps, width)
        if self._mask is not None and self._mask.shape[0] != share * steps:
            self._mask = self._mask.repeat(share, 1)
        out = F.scaled_dot_product_attention(folded, keys[None], values[None], attn_mask=self._mask)
        return out.reshape(1, heads, steps, width)


def _as_slice(slots: range) -> slice:
    return slice(slots.start, slots.stop)

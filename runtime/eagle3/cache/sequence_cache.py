"""Keys and values of one sequence: a committed prefix and, behind it, slots reserved for what may be dropped.

`reserve` opens slots and gives the attention that fills them; `commit` keeps some of them, in path order, and
`rollback` none. Invariant (`check_integrity`): committed and reserved slots fit the storage, and committed
slots are never written again. Knows no tokens and no models. G key/value heads, D head width, S new slots,
R reserved slots, C capacity.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

_FIRST_CAPACITY = 256


class SequenceCache:
    """KV storage of every layer for one sequence, grown by doubling."""

    def __init__(
        self, *, num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        shape = (num_layers, 1, num_kv_heads, _FIRST_CAPACITY, head_dim)
        self.keys_L1GCD = torch.empty(shape, dtype=dtype, device=device)
        self.values_L1GCD = torch.empty(shape, dtype=dtype, device=device)
        self._length = 0
        self._reserved = 0

    @property
    def length(self) -> int:
        """Committed slots."""
        return self._length

    @property
    def reserved(self) -> int:
        """Slots reserved since the last commit or rollback."""
        return self._reserved

    def reserve(self, mask_SR: Tensor | None) -> ReservedSlots:
        """Open one slot for each row of the mask, and return the attention of one forward pass over them.

        `mask_SR` (bool, the columns being all reserved slots, these included) says which reserved slots each
        new slot sees; every committed slot is seen. None opens one slot that sees everything.
        """
        size = 1 if mask_SR is None else mask_SR.shape[0]
        begin = self._length + self._reserved
        self._reserved += size
        assert mask_SR is None or mask_SR.shape[1] == self._reserved, "the mask spans every reserved slot"
        self._grow_to(begin + size)
        if mask_SR is not None:
            mask_SR = F.pad(mask_SR.to(self.keys_L1GCD.device), (self._length, 0), value=True)
        return ReservedSlots(self, begin, begin + size, mask_SR)

    def commit(self, offsets: Sequence[int]) -> None:
        """Keep the reserved slots at these offsets, in this order, and drop the rest."""
        assert all(0 <= offset < self._reserved for offset in offsets), "offsets name reserved slots"
        begin, end = self._length, self._length + len(offsets)
        if list(offsets) != list(range(len(offsets))):
            slots = torch.tensor(offsets, device=self.keys_L1GCD.device) + begin
            self.keys_L1GCD[:, :, :, begin:end] = self.keys_L1GCD[:, :, :, slots]
            self.values_L1GCD[:, :, :, begin:end] = self.values_L1GCD[:, :, :, slots]
        self._length = end
        self._reserved = 0

    def rollback(self) -> None:
        """Drop every reserved slot."""
        self._reserved = 0

    def check_integrity(self) -> None:
        """Assert the invariant; for tests."""
        capacity = self.keys_L1GCD.shape[3]
        assert self._length >= 0
        assert self._reserved >= 0
        assert self._length + self._reserved <= capacity
        assert self.values_L1GCD.shape == self.keys_L1GCD.shape

    def _grow_to(self, slots: int) -> None:
        capacity = self.keys_L1GCD.shape[3]
        if slots <= capacity:
            return
        extra = max(capacity, slots - capacity)
        self.keys_L1GCD = F.pad(self.keys_L1GCD, (0, 0, 0, extra))
        self.values_L1GCD = F.pad(self.values_L1GCD, (0, 0, 0, extra))


class ReservedSlots:
    """Attention of one forward pass over freshly reserved slots; an `Attend` of the models."""

    def __init__(self, cache: SequenceCache, begin: int, end: int, mask_SC: Tensor | None) -> None:
        self._cache = cache
        self._begin = begin
        self._end = end
        self._mask_SC = mask_SC
        self._folded: Tensor | None = None

    def __call__(self, layer: int, query_1HSD: Tensor, key_1GSD: Tensor, value_1GSD: Tensor) -> Tensor:
        """Store the keys and values of `layer` and return the attention output [1, H, S, D]."""
        keys = self._cache.keys_L1GCD[layer]
        values = self._cache.values_L1GCD[layer]
        keys[:, :, self._begin : self._end] = key_1GSD
        values[:, :, self._begin : self._end] = value_1GSD
        heads, steps = query_1HSD.shape[1:3]
        groups = key_1GSD.shape[1]
        # The query heads of a group are folded into the sequence axis: each key is read once for all of them.
        share = heads // groups
        folded = query_1HSD.reshape(1, groups, share * steps, -1)
        if self._folded is None and self._mask_SC is not None:
            self._folded = self._mask_SC.repeat(share, 1)
        out = F.scaled_dot_product_attention(
            folded, keys[:, :, : self._end], values[:, :, : self._end], attn_mask=self._folded
        )
        return out.reshape(query_1HSD.shape)

"""Hands out the blocks of a paged cache, counts who holds them, and finds the ones that can be used again.

Knows block numbers and keys, no tensors. A block is free, held (by one sequence or several), or kept: no one
holds it, but its contents are registered under a key and can be taken up again until the room is needed.
Invariant (`check_integrity`): every block is in exactly one of these states, and only full blocks are registered.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np


class BlockPool:
    """Blocks 0 to `num_blocks` − 1. Consecutive blocks are preferred: they can be read without gathering."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._free = np.ones(num_blocks, dtype=bool)
        self._num_free = num_blocks
        self._holders = [0] * num_blocks
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._key_of: dict[int, tuple[bytes, int | None]] = {}
        self._blocks_of: dict[bytes, dict[int | None, int]] = {}

    @property
    def available(self) -> int:
        """Blocks that can be allocated now, kept ones included."""
        return self._num_free + len(self._kept)

    @property
    def held(self) -> int:
        """Blocks that sequences hold."""
        return self.num_blocks - self.available

    def allocate(self, after: int | None = None) -> int:
        """Take one block, the one that follows `after` if it is free; at least one must be available."""
        assert self.available > 0, "the caller asks only for what is available"
        if after is not None and after + 1 < self.num_blocks and self._free[after + 1]:
            block = after + 1
        elif self._num_free:
            block = self._roomy_block()
        else:
            block, _ = self._kept.popitem(last=False)
            self._forget(block)
            self._free[block] = True
            self._num_free += 1
        self._free[block] = False
        self._num_free -= 1
        self._holders[block] = 1
        return block

    def hold(self, block: int) -> None:
        """Share a registered block that someone holds already, or take up one that is kept."""
        assert block in self._key_of, "only registered blocks are shared"
        if self._holders[block] == 0:
            del self._kept[block]
        self._holders[block] += 1

    def release(self, block: int, *, keep: bool = True) -> None:
        """Give a block back: a registered one is kept for later, any other is free; so is every one without `keep`."""
        assert self._holders[block] > 0, "only held blocks are released"
        self._holders[block] -= 1
        if self._holders[block]:
            return
        if block in self._key_of and not keep:
            self._forget(block)
        if block in self._key_of:
            self._kept[block] = None
            # Half of the pool stays free, so that new sequences find consecutive blocks.
            while len(self._kept) > self.num_blocks // 2:
                oldest, _ = self._kept.popitem(last=False)
                self._forget(oldest)
                self._set_free(oldest)
        else:
            self._set_free(block)

    def register(self, block: int, key: bytes, draft_next: int | None) -> None:
        """Make a full block findable under the key of everything up to its end.

        `draft_next` is the token after the block, with which its draft entries were computed: the last of them
        depends on it. None says that the block holds no draft entries. What is registered already stays.
        """
        assert self._holders[block] > 0, "only held blocks are registered"
        variants = self._blocks_of.setdefault(key, {})
        if block in self._key_of or draft_next in variants:
            return
        variants[draft_next] = block
        self._key_of[block] = (key, draft_next)

    def find(self, key: bytes, draft_next: int | None) -> int | None:
        """A block with this key and usable draft entries; without regard to the draft if `draft_next` is None."""
        variants = self._blocks_of.get(key)
        if not variants:
            return None
        if draft_next is None:
            return next(iter(variants.values()))
        return variants.get(draft_next)

    def check_integrity(self) -> None:
        """Assert the invariant; for tests."""
        held = {block for block, count in enumerate(self._holders) if count > 0}
        free = set(np.flatnonzero(self._free).tolist())
        kept = set(self._kept)
        assert min(self._holders, default=0) >= 0
        assert not held & free
        assert not held & kept
        assert not free & kept
        assert len(held) + len(free) + len(kept) == self.num_blocks
        assert self._num_free == len(free)
        assert self._key_of.keys() <= held | kept
        assert kept <= self._key_of.keys()
        for key, variants in self._blocks_of.items():
            assert variants
            for draft_next, block in variants.items():
                assert self._key_of[block] == (key, draft_next)

    def _roomy_block(self) -> int:
        """A free block with many free ones behind it: the middle of the longest free run, so that both can grow."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self._free.view(np.int8), [0]])))
        begins, ends = edges[::2], edges[1::2]
        longest = int(np.argmax(ends - begins))
        begin, end = int(begins[longest]), int(ends[longest])
        return begin if begin == 0 else begin + (end - begin) // 2

    def _forget(self, block: int) -> None:
        key, draft_next = self._key_of.pop(block)
        variants = self._blocks_of[key]
        del variants[draft_next]
        if not variants:
            del self._blocks_of[key]

    def _set_free(self, block: int) -> None:
        self._free[block] = True
        self._num_free += 1

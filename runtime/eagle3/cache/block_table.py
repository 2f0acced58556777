"""The blocks of one sequence, in the order of its positions, and which slots of the cache they are.

Knows a pool and block numbers, no tensors. Slot = block × block_tokens + offset. The target's and the draft's
cache have the same slots, so one table serves both. Invariant: the table holds every block that it lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from eagle3.cache.block_pool import BlockPool


class BlockTable:
    """Blocks of one sequence; `grow` before writing, `release` at its end."""

    def __init__(self, pool: BlockPool, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._pool = pool
        self._blocks: list[int] = []
        self._keys: list[bytes] = []
        self._registered = 0
        self._consecutive = True

    @property
    def slots_held(self) -> int:
        """Positions that the blocks have room for."""
        return len(self._blocks) * self.block_tokens

    def missing_blocks(self, slots: int) -> int:
        """Blocks that `grow(slots)` would allocate."""
        return max(0, -(-slots // self.block_tokens) - len(self._blocks))

    def grow(self, slots: int) -> None:
        """Have room for so many positions; the pool must have the missing blocks."""
        for _ in range(self.missing_blocks(slots)):
            after = self._blocks[-1] if self._blocks else None
            block = self._pool.allocate(after)
            self._consecutive = self._consecutive and (after is None or block == after + 1)
            self._blocks.append(block)

    def slots(self, begin: int, end: int) -> range | list[int]:
        """Slots of the positions `begin` to `end`: a range where they are consecutive, else a list."""
        assert end <= self.slots_held, "grow the table first"
        size = self.block_tokens
        if self._consecutive:
            first = self._blocks[0] * size if self._blocks else 0
            return range(first + begin, first + end)
        return [self._blocks[at // size] * size + at % size for at in range(begin, end)]

    def reuse(self, token_ids: Sequence[int], *, with_draft: bool) -> int:
        """Take up registered blocks that hold a beginning of `token_ids`; returns how many positions they cover.

        The last token is never covered: its logits are wanted. `with_draft` asks for draft entries as well.
        """
        assert not self._blocks, "only an empty table reuses blocks"
        size = self.block_tokens
        for end in range(size, len(token_ids), size):
            key = self._key(token_ids, end)
            block = self._pool.find(key, token_ids[end] if with_draft else None)
            if block is None:
                break
            self._pool.hold(block)
            self._consecutive = self._consecutive and (not self._blocks or block == self._blocks[-1] + 1)
            self._blocks.append(block)
            self._keys.append(key)
        self._registered = len(self._blocks)
        return len(self._blocks) * size

    def register(self, token_ids: Sequence[int], *, target_length: int, draft_length: int | None) -> None:
        """Make the full blocks findable; `draft_length` None says that there will be no draft entries.

        With draft entries a block counts as full when the draft has filled it too.
        """
        size = self.block_tokens
        length = target_length if draft_length is None else min(target_length, draft_length)
        while (end := (self._registered + 1) * size) <= length and (draft_length is None or end < len(token_ids)):
            key = self._key(token_ids, end)
            self._keys.append(key)
            draft_next = None if draft_length is None else token_ids[end]
            self._pool.register(self._blocks[self._registered], key, draft_next)
            self._registered += 1

    def release(self, *, keep: bool = True) -> None:
        """Give every block back, the last first: beginnings are worth most to others.

        Without `keep` what the blocks hold is not to be trusted: none is found again that no one else holds.
        """
        for block in reversed(self._blocks):
            self._pool.release(block, keep=keep)
        self._blocks.clear()
        self._keys.clear()
        self._registered = 0
        self._consecutive = True

    def _key(self, token_ids: Sequence[int], end: int) -> bytes:
        before = self._keys[-1] if self._keys else b""
        tokens = b"".join(token_id.to_bytes(4, "little") for token_id in token_ids[end - self.block_tokens : end])
        return blake2b(before + tokens, digest_size=16).digest()

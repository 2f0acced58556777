"""Blocks: who holds them, which are handed out next, and which can be found again."""

from __future__ import annotations

import pytest

from eagle3.cache.block_pool import BlockPool


def test_every_block_is_handed_out_once():
    """A pool gives each of its blocks exactly once, and then has none."""
    pool = BlockPool(5)
    blocks = [pool.allocate() for _ in range(5)]
    assert sorted(blocks) == [0, 1, 2, 3, 4]
    assert (pool.available, pool.held) == (0, 5)
    with pytest.raises(AssertionError, match="available"):
        pool.allocate()
    pool.check_integrity()


def test_the_block_that_follows_is_preferred():
    """A sequence that grows alone, or beside another, gets consecutive blocks while there is room."""
    pool = BlockPool(12)
    left, right = [pool.allocate()], [pool.allocate()]
    for _ in range(3):
        left.append(pool.allocate(left[-1]))
        right.append(pool.allocate(right[-1]))
    for blocks in (left, right):
        assert blocks == list(range(blocks[0], blocks[0] + 4))


def test_a_neighbour_in_use_is_no_obstacle():
    """Where the block that follows is taken, or there is none, another one is given."""
    pool = BlockPool(3)
    first = pool.allocate()
    second = pool.allocate(first)
    assert second == first + 1
    third = pool.allocate(first)
    assert third not in (first, second)
    pool.release(first)
    assert pool.allocate(2) == first


def test_released_blocks_are_free_again():
    """A block that no one can find is free as soon as its last holder gives it back."""
    pool = BlockPool(2)
    block = pool.allocate()
    pool.release(block)
    assert (pool.available, pool.held) == (2, 0)
    with pytest.raises(AssertionError, match="held"):
        pool.release(block)


def test_registered_blocks_are_kept_and_found():
    """A registered block outlives its holder, and is taken up under its key only."""
    pool = BlockPool(4)
    block = pool.allocate()
    pool.register(block, b"key", draft_next=7)
    pool.release(block)
    assert (pool.available, pool.held) == (4, 0)
    assert pool.find(b"key", 7) == block
    assert pool.find(b"other", 7) is None
    pool.hold(block)
    assert (pool.available, pool.held) == (3, 1)
    pool.check_integrity()


def test_draft_entries_are_found_by_the_token_after_them():
    """R13: with another next token the last draft entry is wrong: found for plain decoding, not for drafting."""
    pool = BlockPool(4)
    block, bare = pool.allocate(), pool.allocate()
    pool.register(block, b"key", draft_next=7)
    assert pool.find(b"key", 8) is None
    assert pool.find(b"key", 7) == block
    assert pool.find(b"key", None) == block
    pool.register(bare, b"bare", draft_next=None)
    assert pool.find(b"bare", 7) is None
    assert pool.find(b"bare", None) == bare


def test_variants_of_a_key_live_side_by_side():
    """The same tokens before two different next tokens are two blocks, each found by its own."""
    pool = BlockPool(6)
    one, other, again = pool.allocate(), pool.allocate(), pool.allocate()
    pool.register(one, b"key", draft_next=1)
    pool.register(other, b"key", draft_next=2)
    pool.register(again, b"key", draft_next=2)  # is there already: stays private
    assert (pool.find(b"key", 1), pool.find(b"key", 2)) == (one, other)
    pool.release(again)
    with pytest.raises(AssertionError, match="registered"):
        pool.hold(again)
    pool.check_integrity()


def test_shared_blocks_are_released_by_the_last():
    """A block with two holders stays in use until both have given it back."""
    pool = BlockPool(2)
    block = pool.allocate()
    pool.register(block, b"key", None)
    pool.hold(block)
    pool.release(block)
    assert pool.held == 1
    pool.release(block)
    assert pool.held == 0
    assert pool.find(b"key", None) == block


def test_kept_blocks_give_way_the_oldest_first():
    """When nothing is free, the block that was released longest ago is forgotten and handed out."""
    pool = BlockPool(4)
    blocks = [pool.allocate() for _ in range(4)]
    for block in blocks[:2]:
        pool.register(block, bytes([block]), None)
    for block in blocks[:2]:
        pool.release(block)
    assert pool.allocate() == blocks[0]
    assert pool.find(bytes([blocks[0]]), None) is None
    assert pool.find(bytes([blocks[1]]), None) == blocks[1]
    pool.check_integrity()


def test_half_of_the_pool_stays_free():
    """Kept blocks take at most half of the pool; those used last are kept."""
    pool = BlockPool(8)
    blocks = [pool.allocate() for _ in range(8)]
    for block in blocks:
        pool.register(block, bytes([block]), None)
    for block in blocks:
        pool.release(block)
    assert [block for block in blocks if pool.find(bytes([block]), None) is not None] == blocks[4:]
    assert pool.available == 8
    pool.check_integrity()


def test_a_block_that_is_not_to_be_trusted_is_not_kept():
    """Given back without `keep`, a registered block is found no more, unless someone else holds it still."""
    pool = BlockPool(2)
    block = pool.allocate()
    pool.register(block, b"key", None)
    pool.hold(block)
    pool.release(block, keep=False)
    assert pool.find(b"key", None) == block
    pool.release(block, keep=False)
    assert pool.find(b"key", None) is None
    assert (pool.available, pool.held) == (2, 0)
    pool.check_integrity()


def test_only_held_blocks_are_registered():
    """What no one holds may be overwritten at any time: registering it is a programmer's fault."""
    with pytest.raises(AssertionError, match="held"):
        BlockPool(2).register(0, b"key", None)

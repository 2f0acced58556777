"""The blocks of one sequence: which slots they are, and what is found again by whom."""

from __future__ import annotations

import pytest

from eagle3.cache.block_pool import BlockPool
from eagle3.cache.block_table import BlockTable

SIZE = 4
TEXT = list(range(100, 117))  # four full blocks and a token


def filled(pool, token_ids, *, draft=True):
    """A table that has read `token_ids`, all of them but for the last."""
    table = BlockTable(pool, SIZE)
    length = len(token_ids) - 1
    table.grow(length)
    table.register(token_ids, target_length=length, draft_length=length if draft else None)
    return table


def covered(pool, token_ids, *, with_draft=True):
    """How many tokens a new table finds, and the slots that they are in; it gives them back."""
    table = BlockTable(pool, SIZE)
    count = table.reuse(token_ids, with_draft=with_draft)
    slots = list(table.slots(0, count))
    table.release()
    pool.check_integrity()
    return count, slots


def test_grow_takes_whole_blocks():
    """A table has room for what was asked for, to the next block, and never gives room back."""
    pool = BlockPool(8)
    table = BlockTable(pool, SIZE)
    for slots, blocks in [(0, 0), (1, 1), (4, 1), (5, 2), (3, 2), (16, 4)]:
        assert table.missing_blocks(slots) == max(0, blocks - table.slots_held // SIZE)
        table.grow(slots)
        assert table.slots_held == blocks * SIZE
        assert pool.held == blocks


def test_slots_of_consecutive_blocks_are_a_range():
    """Alone in its pool, a sequence can be read without gathering."""
    table = BlockTable(BlockPool(8), SIZE)
    table.grow(13)
    slots = table.slots(2, 13)
    assert isinstance(slots, range)
    assert len(slots) == 11
    assert slots[0] % SIZE == 2


def test_slots_of_scattered_blocks_are_listed():
    """With its neighbour taken, a sequence goes on elsewhere, and its slots follow the order of its positions."""
    pool = BlockPool(8)
    table, wedge = BlockTable(pool, SIZE), BlockTable(pool, SIZE)
    table.grow(SIZE)
    first = table.slots(0, 1)[0] // SIZE
    while pool.held != 8:
        wedge.grow(wedge.slots_held + SIZE)
    wedge.release()
    taken = pool.allocate(first)
    assert taken == first + 1
    table.grow(3 * SIZE)
    slots = table.slots(0, 3 * SIZE)
    assert isinstance(slots, list)
    assert len(set(slots)) == 12
    blocks = [slot // SIZE for slot in slots[::SIZE]]
    assert slots == [block * SIZE + offset for block in blocks for offset in range(SIZE)]
    assert blocks[0] == first
    assert taken not in blocks
    assert table.slots(3, 6) == slots[3:6]


def test_slots_beyond_the_room_are_a_fault():
    """Reading or writing where no block is, is a programmer's fault."""
    table = BlockTable(BlockPool(8), SIZE)
    table.grow(3)
    with pytest.raises(AssertionError, match="grow"):
        table.slots(0, 5)


@pytest.mark.parametrize("with_draft", [True, False])
def test_the_same_text_is_found_whole(with_draft):
    """All full blocks of a text are found while they are in use, and after; the slots are the same."""
    pool = BlockPool(16)
    table = filled(pool, TEXT)
    slots = list(table.slots(0, 16))
    assert covered(pool, TEXT, with_draft=with_draft) == (16, slots)
    table.release()
    assert pool.held == 0
    assert covered(pool, TEXT, with_draft=with_draft) == (16, slots)


def test_the_last_token_is_never_covered():
    """A text that ends with a block is read from that block's beginning: its last logits are wanted."""
    pool = BlockPool(16)
    filled(pool, TEXT)
    assert [covered(pool, TEXT[:size])[0] for size in (1, 4, 5, 8, 9, 16, 17)] == [0, 0, 4, 4, 8, 12, 16]


@pytest.mark.parametrize("place", range(17))
def test_a_changed_token_ends_what_is_found(place):
    """The target's blocks are found up to the one with the changed token, the draft's up to the one before that.

    R13: the last draft entry of a block was made with the token after the block.
    """
    pool = BlockPool(16)
    filled(pool, TEXT)
    other = [*TEXT[:place], 7, *TEXT[place + 1 :]]
    assert covered(pool, other, with_draft=False)[0] == place // SIZE * SIZE
    assert covered(pool, other)[0] == max(0, (place - 1) // SIZE * SIZE)


def test_the_same_tokens_elsewhere_are_not_the_same_block():
    """A block's key is everything up to its end: equal tokens behind another beginning are not found."""
    pool = BlockPool(16)
    filled(pool, [1, 1, 1, 1, 2, 2, 2, 2, 3])
    assert covered(pool, [5, 5, 5, 5, 2, 2, 2, 2, 3])[0] == 0
    assert covered(pool, [2, 2, 2, 2, 3])[0] == 0
    # Nor are ids whose bytes run together alike.
    assert covered(pool, [1, 1, 1, 257, 2, 2, 2, 2, 3])[0] == 0


def test_plain_blocks_are_of_use_to_plain_requests_only():
    """Blocks without draft entries are not found by a sequence that drafts; those with them serve both."""
    pool = BlockPool(16)
    filled(pool, TEXT, draft=False)
    assert covered(pool, TEXT, with_draft=False)[0] == 16
    assert covered(pool, TEXT)[0] == 0
    filled(pool, TEXT)
    assert covered(pool, TEXT)[0] == 16


def test_blocks_count_as_full_when_both_models_have_filled_them():
    """A draft that lags behind holds registration back; the token after the block must be known, too."""
    pool = BlockPool(16)
    table = BlockTable(pool, SIZE)
    table.grow(16)
    for draft_length, found in [(0, 0), (3, 0), (4, 4), (7, 4), (8, 8), (16, 12)]:
        table.register(TEXT[:16], target_length=16, draft_length=draft_length)
        assert covered(pool, TEXT)[0] == found
    # The last block ends with the known text: which token its draft entry is made with is not known.
    table.register(TEXT, target_length=16, draft_length=16)
    assert covered(pool, TEXT)[0] == 16


def test_reused_blocks_are_shared_and_new_ones_are_not():
    """Two sequences with a common beginning share its blocks, and grow each on its own."""
    pool = BlockPool(16)
    left = filled(pool, TEXT)
    right = BlockTable(pool, SIZE)
    assert right.reuse([*TEXT[:9], 1, 2, 3], with_draft=True) == 8
    right.grow(11)
    left.grow(20)
    assert list(right.slots(0, 8)) == list(left.slots(0, 8))
    assert not set(right.slots(8, 11)) & set(left.slots(0, 20))
    assert pool.held == 5 + 1
    right.release()
    left.release()
    assert pool.held == 0
    pool.check_integrity()


def test_release_keeps_beginnings_longest():
    """When kept blocks give way, the end of a text goes before its beginning."""
    pool = BlockPool(8)
    filled(pool, TEXT).release()
    for _ in range(4):
        pool.allocate()  # what was free
    found = []
    for _ in range(4):
        found.append(covered(pool, TEXT)[0])
        pool.allocate()
    assert found == [16, 12, 8, 4]

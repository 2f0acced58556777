"""Keys and values of many sequences: what a pass writes, what each row sees, and what is moved."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from eagle3.cache.paged_cache import PagedCache
from eagle3.cache.sequence_rows import SequenceRows

LAYERS, GROUPS, HEADS, WIDTH, SLOTS = 2, 2, 4, 3, 40
# Positions of three sequences; the second one's are scattered and out of order.
PLACES = [range(4, 14), [30, 31, 2, 3, 22, 23, 20, 21, 0, 1], range(24, 30)]


@pytest.fixture
def cache():
    cache = PagedCache(
        num_slots=SLOTS,
        num_layers=LAYERS,
        num_kv_heads=GROUPS,
        head_dim=WIDTH,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    # Storage starts uninitialised: whatever reads a slot that was not written shows.
    cache.keys_LGCD.fill_(float("nan"))
    cache.values_LGCD.fill_(float("nan"))
    return cache


def causal(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


def random(heads, size, seed):
    return torch.randn(1, heads, size, WIDTH, generator=torch.Generator().manual_seed(seed))


def plain_attention(query_1HSD, keys_1GSD, values_1GSD, mask_SR):
    """Every row by itself over the keys that it sees, at the end of all keys."""
    out = []
    for row in range(query_1HSD.shape[2]):
        seen = torch.ones(keys_1GSD.shape[2], dtype=torch.bool)
        seen[-mask_SR.shape[1] :] = mask_SR[row]
        out.append(
            F.scaled_dot_product_attention(
                query_1HSD[:, :, row : row + 1], keys_1GSD[:, :, seen], values_1GSD[:, :, seen], enable_gqa=True
            )
        )
    return torch.cat(out, dim=2)


TREE = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)


@pytest.mark.parametrize("places", [[PLACES[0]], [PLACES[1]], PLACES, PLACES[::-1], [PLACES[2], PLACES[0]]])
@pytest.mark.parametrize("layer", [0, 1])
def test_each_row_sees_its_own_sequence_and_what_its_mask_shows(cache, places, layer):
    """Prefixes, then trees: attention equals plain attention over each sequence alone, contiguous and scattered."""
    prefixes = [len(slots) - 4 - index % 2 for index, slots in enumerate(places)]
    keys = [random(GROUPS, size, 10 + index) for index, size in enumerate(prefixes)]
    values = [random(GROUPS, size, 20 + index) for index, size in enumerate(prefixes)]
    first = [
        SequenceRows(slots[:size], slots[:size], causal(size)) for slots, size in zip(places, prefixes, strict=True)
    ]
    query = random(HEADS, sum(prefixes), 1)
    out = cache.attend(first)(layer, query, torch.cat(keys, dim=2), torch.cat(values, dim=2))
    begin = 0
    for index, size in enumerate(prefixes):
        expected = plain_attention(query[:, :, begin : begin + size], keys[index], values[index], causal(size))
        torch.testing.assert_close(out[:, :, begin : begin + size], expected)
        begin += size

    trees = [
        SequenceRows(slots[: size + 4], slots[size : size + 4], TREE)
        for slots, size in zip(places, prefixes, strict=True)
    ]
    query, new_keys, new_values = (
        random(HEADS, 4 * len(places), 2),
        random(GROUPS, 4 * len(places), 3),
        random(GROUPS, 4 * len(places), 4),
    )
    out = cache.attend(trees)(layer, query, new_keys, new_values)
    for index in range(len(places)):
        rows = slice(4 * index, 4 * index + 4)
        all_keys = torch.cat([keys[index], new_keys[:, :, rows]], dim=2)
        all_values = torch.cat([values[index], new_values[:, :, rows]], dim=2)
        torch.testing.assert_close(out[:, :, rows], plain_attention(query[:, :, rows], all_keys, all_values, TREE))


def test_one_attend_serves_every_layer(cache):
    """The masks are made once for a pass; each layer has keys and values of its own."""
    attend = cache.attend([SequenceRows(range(3), range(3), causal(3)), SequenceRows([7, 9], [7, 9], causal(2))])
    for layer in range(LAYERS):
        query, key, value = random(HEADS, 5, layer), random(GROUPS, 5, 5 + layer), random(GROUPS, 5, 9 + layer)
        out = attend(layer, query, key, value)
        for rows in (slice(0, 3), slice(3, 5)):
            size = rows.stop - rows.start
            expected = plain_attention(query[:, :, rows], key[:, :, rows], value[:, :, rows], causal(size))
            torch.testing.assert_close(out[:, :, rows], expected)


def test_a_row_without_a_mask_sees_everything(cache):
    """One new row, as in plain decoding, attends to all slots of its sequence."""
    cache.attend([SequenceRows([5, 3, 8], [5, 3, 8], causal(3))])(
        0, random(HEADS, 3, 0), random(GROUPS, 3, 1), random(GROUPS, 3, 2)
    )
    query, key, value = random(HEADS, 1, 3), random(GROUPS, 1, 4), random(GROUPS, 1, 5)
    out = cache.attend([SequenceRows([5, 3, 8, 1], [1], None)])(0, query, key, value)
    keys = torch.cat([random(GROUPS, 3, 1), key], dim=2)
    values = torch.cat([random(GROUPS, 3, 2), value], dim=2)
    torch.testing.assert_close(out, plain_attention(query, keys, values, torch.ones(1, 1, dtype=torch.bool)))


def test_exactly_the_new_slots_are_written(cache):
    """R19: a ragged pass of five sequences fills their new slots in their layer, and no bit of any other."""
    cache.keys_LGCD.fill_(-77.0)
    cache.values_LGCD.fill_(-77.0)
    rows = [
        SequenceRows(range(0, 3), range(0, 3), causal(3)),
        SequenceRows(range(8, 9), range(8, 9), None),
        SequenceRows([20, 4, 5], [20, 4, 5], causal(3)),
        SequenceRows(range(30, 34), range(32, 34), causal(2)),
        SequenceRows([39, 12], [39, 12], causal(2)),
    ]
    new = [slot for one in rows for slot in one.new]
    total = len(new)
    cache.attend(rows)(1, random(HEADS, total, 0), random(GROUPS, total, 1), random(GROUPS, total, 2))
    for store, seed in ((cache.keys_LGCD, 1), (cache.values_LGCD, 2)):
        assert torch.equal(store[1][:, new], random(GROUPS, total, seed)[0])
        others = [slot for slot in range(SLOTS) if slot not in new]
        assert bool((store[1][:, others] == -77.0).all())
        assert bool((store[0] == -77.0).all())


def test_move_reads_before_it_writes(cache):
    """Slots that are source and destination at once slide without loss, in every layer and for keys and values."""
    numbers = torch.arange(SLOTS, dtype=torch.float32)
    for store, factor in ((cache.keys_LGCD, 1), (cache.values_LGCD, 100)):
        store.copy_((numbers * factor)[None, None, :, None].expand_as(store))
        store[1] += 0.5
    cache.move([11, 12, 13, 30], [10, 11, 12, 2])
    expected = numbers.clone()
    expected[[10, 11, 12, 2]] = numbers[[11, 12, 13, 30]]
    for store, factor in ((cache.keys_LGCD, 1), (cache.values_LGCD, 100)):
        for layer in range(LAYERS):
            assert torch.equal(store[layer], (expected * factor + 0.5 * layer)[None, :, None].expand_as(store[layer]))


def test_move_of_nothing(cache):
    """Accepted chains lie where they are: nothing is moved, nothing fails."""
    cache.values_LGCD.fill_(1.0)
    cache.move([], [])
    assert bool((cache.values_LGCD == 1.0).all())


def test_bytes_per_slot_is_what_the_storage_takes(cache):
    """The size that memory is planned with is the size that is allocated."""
    stored = sum(store.numel() * store.element_size() for store in (cache.keys_LGCD, cache.values_LGCD))
    assert stored == SLOTS * PagedCache.bytes_per_slot(
        num_layers=LAYERS, num_kv_heads=GROUPS, head_dim=WIDTH, dtype=torch.float32
    )

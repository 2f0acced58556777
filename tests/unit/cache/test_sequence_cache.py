"""One sequence's keys and values: what is reserved, kept, dropped, and seen by attention."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from eagle3.cache import sequence_cache
from eagle3.cache.sequence_cache import SequenceCache

LAYERS, GROUPS, HEADS, WIDTH = 2, 2, 4, 3


@pytest.fixture
def cache(monkeypatch):
    monkeypatch.setattr(sequence_cache, "_FIRST_CAPACITY", 4)
    return SequenceCache(
        num_layers=LAYERS, num_kv_heads=GROUPS, head_dim=WIDTH, dtype=torch.float32, device=torch.device("cpu")
    )


def causal(size):
    return torch.ones(size, size, dtype=torch.bool).tril()


def fill(cache, values, mask):
    """Reserve a slot for each value and store it in every layer; layer n holds value + 100 n."""
    attend = cache.reserve(mask)
    content = torch.tensor(values, dtype=torch.float32)[None, None, :, None].expand(1, GROUPS, -1, WIDTH)
    query = torch.zeros(1, HEADS, len(values), WIDTH)
    for layer in range(LAYERS):
        attend(layer, query, content + 100 * layer, content + 100 * layer + 1000)
    cache.check_integrity()


def stored(cache):
    """The committed values, once every layer and head agrees on them."""
    keys = cache.keys_L1GCD[..., : cache.length, :]
    values = cache.values_L1GCD[..., : cache.length, :]
    assert torch.equal(values, keys + 1000)
    assert all(torch.equal(keys[layer], keys[0] + 100 * layer) for layer in range(LAYERS))
    assert torch.equal(keys, keys[:, :, :1, :, :1].expand_as(keys))
    return keys[0, 0, 0, :, 0].tolist()


def test_commit_keeps_a_scattered_path_in_order(cache):
    """Keeping offsets 0, 2, 5 of six slots moves their keys and values together, in every layer."""
    fill(cache, [1, 2], causal(2))
    cache.commit(range(2))
    fill(cache, [10, 11, 12, 13, 14, 15], causal(6))
    cache.commit([0, 2, 5])
    assert (cache.length, cache.reserved) == (5, 0)
    assert stored(cache) == [1, 2, 10, 12, 15]


def test_commit_of_a_path_that_skips_the_first_slot(cache):
    """Overlapping moves read before they write: offsets 1, 2, 3 slide down by one."""
    fill(cache, [10, 11, 12, 13], causal(4))
    cache.commit([1, 2, 3])
    assert stored(cache) == [11, 12, 13]


def test_commit_of_nothing_is_a_rollback(cache):
    """No offsets keep no slot."""
    fill(cache, [1, 2], causal(2))
    cache.commit([])
    assert (cache.length, cache.reserved) == (0, 0)


def test_rollback_restores(cache):
    """After a rollback length and content are those of the last commit, and the slots are free again."""
    fill(cache, [1, 2, 3], causal(3))
    cache.commit(range(3))
    fill(cache, [7, 8], causal(2))
    fill(cache, [9], torch.tensor([[True, False, True]]))
    assert cache.reserved == 3
    cache.rollback()
    assert (cache.length, cache.reserved) == (3, 0)
    fill(cache, [4], None)
    cache.commit([0])
    assert stored(cache) == [1, 2, 3, 4]


@pytest.mark.parametrize("size", [4, 5, 9, 40])
def test_growth_keeps_what_was_stored(cache, size):
    """Going beyond the capacity, by one or by much, loses nothing."""
    fill(cache, [1, 2, 3], causal(3))
    cache.commit(range(3))
    fill(cache, list(range(10, 10 + size)), causal(size))
    cache.commit(range(size))
    assert stored(cache) == [1, 2, 3, *range(10, 10 + size)]


def test_attention_sees_the_prefix_and_what_the_mask_shows(cache):
    """Attention over cache and mask equals plain attention over the visible keys alone, grouped heads included."""
    generator = torch.Generator().manual_seed(0)

    def random(heads, size):
        return torch.randn(1, heads, size, WIDTH, generator=generator)

    prefix_keys, prefix_values = random(GROUPS, 5), random(GROUPS, 5)
    cache.reserve(causal(5))(0, random(HEADS, 5), prefix_keys, prefix_values)
    cache.commit(range(5))
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)
    query, keys, values = random(HEADS, 4), random(GROUPS, 4), random(GROUPS, 4)
    out = cache.reserve(mask)(0, query, keys, values)
    for row in range(4):
        seen_keys = torch.cat([prefix_keys, keys[:, :, mask[row]]], dim=2)
        seen_values = torch.cat([prefix_values, values[:, :, mask[row]]], dim=2)
        expected = F.scaled_dot_product_attention(query[:, :, row : row + 1], seen_keys, seen_values, enable_gqa=True)
        torch.testing.assert_close(out[:, :, row : row + 1], expected)


def test_slots_that_were_never_written_are_never_seen(cache):
    """Storage starts uninitialised: NaN beyond the reserved slots must not reach the output."""
    cache.keys_L1GCD.fill_(float("nan"))
    cache.values_L1GCD.fill_(float("nan"))
    ones = torch.ones(1, GROUPS, 2, WIDTH)
    out = cache.reserve(causal(2))(0, torch.ones(1, HEADS, 2, WIDTH), ones, ones)
    assert torch.equal(out, torch.ones(1, HEADS, 2, WIDTH))


def test_misuse_is_noticed(cache):
    """A mask that does not span the reserved slots, or an offset that was not reserved, is a programmer's fault."""
    cache.reserve(causal(2))
    with pytest.raises(AssertionError, match="mask spans"):
        cache.reserve(causal(2))
    cache.rollback()
    cache.reserve(causal(2))
    with pytest.raises(AssertionError, match="offsets"):
        cache.commit([2])
    with pytest.raises(AssertionError, match="offsets"):
        cache.commit([-1])

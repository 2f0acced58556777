"""The cache against a plain list, under any order of reserve, commit and rollback."""

from __future__ import annotations

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eagle3.cache import sequence_cache
from eagle3.cache.sequence_cache import SequenceCache

LAYERS, GROUPS, HEADS, WIDTH = 2, 1, 2, 2
FIRST_CAPACITY = 3


class CacheMachine(RuleBasedStateMachine):
    """Every slot holds a number of its own, so that a lost, moved or overwritten slot shows."""

    def __init__(self):
        super().__init__()
        original = sequence_cache._FIRST_CAPACITY
        sequence_cache._FIRST_CAPACITY = FIRST_CAPACITY
        try:
            self.cache = SequenceCache(
                num_layers=LAYERS, num_kv_heads=GROUPS, head_dim=WIDTH, dtype=torch.float64, device=torch.device("cpu")
            )
        finally:
            sequence_cache._FIRST_CAPACITY = original
        self.committed: list[float] = []
        self.reserved: list[float] = []
        self.next_value = 1.0

    @rule(size=st.integers(1, 6), seed=st.integers(0, 2**16), whole=st.booleans())
    def reserve(self, size, seed, whole):
        """Fill new slots, and see exactly the prefix and what the mask shows."""
        if whole:
            size, mask = 1, torch.ones(1, len(self.reserved) + 1, dtype=torch.bool)
        else:
            mask = torch.rand(size, len(self.reserved) + size, generator=torch.Generator().manual_seed(seed)) < 0.5
            mask[:, len(self.reserved) :] |= torch.eye(size, dtype=torch.bool)
        fresh = [self.next_value + step for step in range(size)]
        self.next_value += size
        self.reserved += fresh
        attend = self.cache.reserve(None if whole else mask)
        content = torch.tensor(fresh, dtype=torch.float64)[None, None, :, None].expand(1, GROUPS, size, WIDTH)
        for layer in range(LAYERS):
            # Queries of zero weigh all visible slots alike: the output is the mean of their values.
            out = attend(layer, torch.zeros(1, HEADS, size, WIDTH, dtype=torch.float64), content, content * (layer + 1))
            for row in range(size):
                seen = self.committed + [v for v, shown in zip(self.reserved, mask[row].tolist(), strict=True) if shown]
                mean = (layer + 1) * sum(seen) / len(seen)
                torch.testing.assert_close(out[0, :, row], torch.full((HEADS, WIDTH), mean, dtype=torch.float64))

    @precondition(lambda self: self.reserved)
    @rule(data=st.data())
    def commit(self, data):
        """Keep a rising selection of the reserved slots, as a path of a tree is."""
        offsets = sorted(data.draw(st.sets(st.integers(0, len(self.reserved) - 1))))
        self.cache.commit(offsets)
        self.committed += [self.reserved[offset] for offset in offsets]
        self.reserved = []

    @rule()
    def rollback(self):
        """Drop every reserved slot."""
        self.cache.rollback()
        self.reserved = []

    @invariant()
    def agrees_with_the_list(self):
        """Counts, and keys and values of every layer, are the list's."""
        self.cache.check_integrity()
        assert (self.cache.length, self.cache.reserved) == (len(self.committed), len(self.reserved))
        everything = torch.tensor(self.committed + self.reserved, dtype=torch.float64)
        end = len(everything)
        for layer in range(LAYERS):
            for slots, factor in ((self.cache.keys_L1GCD, 1), (self.cache.values_L1GCD, layer + 1)):
                kept = slots[layer, 0, :, :end]
                assert torch.equal(kept, (everything * factor)[None, :, None].expand_as(kept))


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(deadline=None, max_examples=30, stateful_step_count=25)

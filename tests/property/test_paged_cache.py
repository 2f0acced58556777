"""Pool, tables and cache against plain lists, under any order of reading, drafting, sharing and releasing."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eagle3.cache.block_pool import BlockPool
from eagle3.cache.block_table import BlockTable
from eagle3.cache.paged_cache import PagedCache
from eagle3.cache.sequence_rows import SequenceRows
from eagle3.tree.draft_tree import ancestor_mask

LAYERS, GROUPS, HEADS, WIDTH = 2, 1, 2, 2
BLOCKS, SIZE = 16, 2
TOKENS = st.sampled_from([0, 0, 0, 1])  # most beginnings are shared


class Sequence:
    """One sequence as plain lists. `length` and `draft_length` are how far the target and the draft have read."""

    def __init__(self, pool: BlockPool, token_ids: list[int], speculates: bool) -> None:
        self.table = BlockTable(pool, SIZE)
        self.token_ids = token_ids
        self.speculates = speculates
        self.length = self.draft_length = self.table.reuse(token_ids, with_draft=speculates)

    @property
    def slots(self) -> list[int]:
        return list(self.table.slots(0, self.length))


class CacheMachine(RuleBasedStateMachine):
    """A slot of the target holds a number that stands for all tokens up to its own, as keys and values do.

    So a lost, moved or overwritten slot shows, and so does one that was shared wrongly. The draft's cache is a plain
    list: its entry stands for all tokens up to the one after its own.
    """

    def __init__(self):
        super().__init__()
        self.pool = BlockPool(BLOCKS)
        self.cache = PagedCache(
            num_slots=BLOCKS * SIZE,
            num_layers=LAYERS,
            num_kv_heads=GROUPS,
            head_dim=WIDTH,
            dtype=torch.float64,
            device=torch.device("cpu"),
        )
        self.cache.keys_LGCD.fill_(float("nan"))
        self.cache.values_LGCD.fill_(float("nan"))
        self.draft_entries: list[Any] = [None] * (BLOCKS * SIZE)
        self.sequences: list[Sequence] = []
        self.numbers: dict[tuple[int, ...], float] = {}

    def number(self, tokens):
        return self.numbers.setdefault(tuple(tokens), float(len(self.numbers) + 1))

    def values(self, sequence):
        return [self.number(sequence.token_ids[: place + 1]) for place in range(sequence.length)]

    def room(self, sequence, slots):
        if sequence.table.missing_blocks(slots) > self.pool.available:
            return False
        sequence.table.grow(slots)
        return True

    def forward(self, parts):
        """One ragged pass over (sequence, numbers of its new rows, mask); checks what each row saw."""
        rows, flat = [], []
        for sequence, fresh, mask in parts:
            end = sequence.length + len(fresh)
            rows.append(SequenceRows(sequence.table.slots(0, end), sequence.table.slots(sequence.length, end), mask))
            flat += fresh
        attend = self.cache.attend(rows)
        content = torch.tensor(flat, dtype=torch.float64)[None, None, :, None].expand(1, GROUPS, len(flat), WIDTH)
        # Queries of zero weigh all visible slots alike: the output is the mean of their values.
        query = torch.zeros(1, HEADS, len(flat), WIDTH, dtype=torch.float64)
        for layer in range(LAYERS):
            out = attend(layer, query, content, content * (layer + 1))[0, 0, :, 0].tolist()
            for sequence, fresh, mask in parts:
                for own in range(len(fresh)):
                    shown = [True] if mask is None else mask[own].tolist()
                    seen = self.values(sequence) + [v for v, yes in zip(fresh, shown, strict=True) if yes]
                    assert abs(out.pop(0) - (layer + 1) * sum(seen) / len(seen)) < 1e-9

    @precondition(lambda self: len(self.sequences) < 4)
    @rule(token_ids=st.lists(TOKENS, min_size=1, max_size=9), speculates=st.booleans())
    def begin(self, token_ids, speculates):
        """A new sequence takes up whole blocks, never the last token; the invariant checks what they hold."""
        sequence = Sequence(self.pool, token_ids, speculates)
        assert sequence.length % SIZE == 0
        assert sequence.length < len(token_ids)
        self.sequences.append(sequence)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), sizes=st.lists(st.integers(1, 8), min_size=2, max_size=2), register=st.booleans())
    def read(self, data, sizes, register):
        """Chunks of one or two sequences, side by side in one pass."""
        chosen = data.draw(st.lists(st.sampled_from(self.sequences), min_size=1, max_size=2, unique_by=id))
        parts = []
        for sequence, size in zip(chosen, sizes, strict=False):
            end = sequence.length + size
            if self.room(sequence, end):
                sequence.token_ids += data.draw(
                    st.lists(TOKENS, min_size=max(0, end - len(sequence.token_ids)), max_size=size + 1)
                )
                mask = None if size == 1 else torch.ones(size, size, dtype=torch.bool).tril()
                fresh = [self.number(sequence.token_ids[: place + 1]) for place in range(sequence.length, end)]
                parts.append((sequence, fresh, mask))
        if parts:
            self.forward(parts)
            for sequence, fresh, _ in parts:
                sequence.length += len(fresh)
                if register:
                    self.draft_reads(sequence, sequence.length)
                    self.make_findable(sequence)

    @precondition(lambda self: self.sequences)
    @rule(
        data=st.data(),
        nodes=st.lists(st.tuples(st.integers(0, 99), TOKENS), min_size=1, max_size=7),
        root_id=TOKENS,
        bonus_id=TOKENS,
        keep=st.booleans(),
    )
    def verify(self, data, nodes, root_id, bonus_id, keep):
        """A tree is verified, then a path of it is committed; or none of it is, which is a rollback."""
        sequence = data.draw(st.sampled_from(self.sequences))
        begin, size = sequence.length, len(nodes) + 1
        if len(sequence.token_ids) > begin + 1 or not self.room(sequence, begin + size):
            return  # reads its prompt still
        sequence.token_ids += [root_id] * (begin + 1 - len(sequence.token_ids))
        parents, paths = [0], [sequence.token_ids[begin:]]
        for node, (draw, token_id) in enumerate(nodes, start=1):
            parents.append(draw % node)
            paths.append([*paths[draw % node], token_id])
        numbers = [self.number([*sequence.token_ids[:begin], *path]) for path in paths]
        self.forward([(sequence, numbers, ancestor_mask(parents))])
        if not keep:
            return
        walker = data.draw(st.integers(0, len(nodes)))
        path = [walker]
        while path[0]:
            path.insert(0, parents[path[0]])
        slots = sequence.table.slots(begin, begin + size)
        self.cache.move([slots[node] for node in path], [slots[place] for place in range(len(path))])
        sequence.token_ids += [*paths[walker][1:], bonus_id]
        sequence.length += len(path)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), lag=st.integers(0, 5))
    def observe(self, data, lag):
        """The draft reads on, some tokens behind the target; its own levels lie behind that, and are worth nothing."""
        sequence = data.draw(st.sampled_from(self.sequences))
        self.draft_reads(sequence, sequence.length - lag)

    def draft_reads(self, sequence, end):
        end = min(end, len(sequence.token_ids) - 1)
        if not sequence.speculates or end < sequence.draft_length:
            return
        slots = sequence.table.slots(0, sequence.table.slots_held)
        for place in range(sequence.draft_length, end):
            self.draft_entries[slots[place]] = tuple(sequence.token_ids[: place + 2])
        sequence.draft_length = end
        for slot in slots[end:]:
            self.draft_entries[slot] = "a level of a tree"

    @precondition(lambda self: self.sequences)
    @rule(data=st.data())
    def register(self, data):
        """Full blocks become findable."""
        self.make_findable(data.draw(st.sampled_from(self.sequences)))

    def make_findable(self, sequence):
        draft_length = sequence.draft_length if sequence.speculates else None
        sequence.table.register(sequence.token_ids, target_length=sequence.length, draft_length=draft_length)

    @precondition(lambda self: self.sequences)
    @rule(data=st.data(), register=st.booleans())
    def end(self, data, register):
        """A sequence gives its blocks back, those that only the target has filled registered or not."""
        sequence = data.draw(st.sampled_from(self.sequences))
        if register:
            sequence.table.register(sequence.token_ids, target_length=sequence.length, draft_length=None)
        sequence.table.release()
        self.sequences.remove(sequence)

    @invariant()
    def agrees_with_the_lists(self):
        """What was read by a sequence or found by it, is in both caches what its own tokens make it."""
        self.pool.check_integrity()
        tables = {slot // SIZE for sequence in self.sequences for slot in range_of(sequence.table)}
        assert self.pool.held == len(tables)
        for sequence in self.sequences:
            slots = sequence.slots
            everything = torch.tensor(self.values(sequence), dtype=torch.float64)
            for layer in range(LAYERS):
                for store, factor in ((self.cache.keys_LGCD, 1), (self.cache.values_LGCD, layer + 1)):
                    kept = store[layer, 0, torch.tensor(slots, dtype=torch.int64)]
                    assert torch.equal(kept, (everything * factor)[:, None].expand_as(kept))
            if sequence.speculates:
                for place in range(sequence.draft_length):
                    assert self.draft_entries[slots[place]] == tuple(sequence.token_ids[: place + 2])


def range_of(table: BlockTable) -> list[int]:
    """Every slot that a table holds."""
    return list(table.slots(0, table.slots_held))


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)

"""The reduced vocabulary: as many distinct ids as asked for, whatever the counts."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from builders import tiny_draft_checkpoint, tiny_draft_config
from eagle3.errors import InvalidInputError
from eagle3.models.draft_formats import DraftCheckpoint, read_draft, write_draft
from eagle3.train.vocabulary import count_tokens, draft_ids_by_target_id, select_draft_vocabulary


def test_fewer_distinct_tokens_than_asked_for_are_filled_up(tmp_path):
    """R4: 1,746 distinct tokens, 32,000 of 128,256 asked for: 32,000 distinct ids, and as many members on disk."""
    seen = torch.randperm(128_256, generator=torch.Generator().manual_seed(0))[:1746].tolist()
    counts = Counter({token: 1 + index % 7 for index, token in enumerate(seen)})
    ids = select_draft_vocabulary(counts, 128_256, 32_000)
    assert ids.dtype == torch.int64
    assert len(ids) == len(set(ids.tolist())) == 32_000
    assert set(seen) <= set(ids.tolist())

    config = tiny_draft_config(hidden_size=4, intermediate_size=4, num_heads=1, num_kv_heads=1, head_dim=4,
                               target_hidden_size=4, vocab_size=128_256, draft_vocab_size=32_000)  # fmt: skip
    tensors = tiny_draft_checkpoint(config).tensors
    write_draft(tmp_path, DraftCheckpoint(config=config, tensors=tensors, target_ids_V=ids), "original")
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["t2d"].shape == (128_256,)
    assert int(stored["t2d"].sum()) == 32_000
    assert torch.equal(stored["d2t"] + torch.arange(32_000), ids)
    assert torch.equal(read_draft(tmp_path).target_ids_V, ids)


def test_the_most_frequent_tokens_are_taken_in_ascending_order():
    """Five tokens seen, three asked for: the three most frequent, sorted by id."""
    counts = Counter({9: 50, 3: 40, 7: 30, 1: 20, 5: 10})
    assert select_draft_vocabulary(counts, 10, 3).tolist() == [3, 7, 9]


def test_ties_go_to_the_lower_id():
    """Equal counts are cut by id, so that a rerun on the same data chooses the same tokens."""
    counts = Counter({8: 2, 6: 1, 2: 1, 4: 1})
    assert select_draft_vocabulary(counts, 10, 3).tolist() == [2, 4, 8]


def test_the_lowest_unused_ids_fill_up():
    """What is missing comes from the bottom of the vocabulary, tokens already chosen left out."""
    assert select_draft_vocabulary(Counter({1: 5, 7: 5}), 10, 5).tolist() == [0, 1, 2, 3, 7]
    assert select_draft_vocabulary(Counter(), 10, 4).tolist() == [0, 1, 2, 3]


def test_the_whole_vocabulary_is_the_identity():
    """A draft vocabulary of the target's size has every id once."""
    assert select_draft_vocabulary(Counter({3: 9}), 6, 6).tolist() == list(range(6))


@pytest.mark.parametrize("size", [0, -1, 11, 32_000])
def test_sizes_out_of_range_are_refused(size):
    """No vocabulary is empty or larger than the target's; the message names both numbers."""
    with pytest.raises(InvalidInputError, match=rf"{size} tokens.*1 to 10"):
        select_draft_vocabulary(Counter({1: 1}), 10, size)


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_any_counts_give_distinct_ascending_ids_in_range(data):
    """For any counts and sizes: exactly as many ids as asked for, and no token left out for a rarer one."""
    vocab = data.draw(st.integers(1, 40))
    size = data.draw(st.integers(1, vocab))
    counts = Counter(data.draw(st.dictionaries(st.integers(0, vocab - 1), st.integers(1, 5))))
    ids = select_draft_vocabulary(counts, vocab, size).tolist()
    assert ids == sorted(set(ids))
    assert len(ids) == size
    assert all(0 <= token < vocab for token in ids)
    left_out = max((counts[token] for token in range(vocab) if token not in ids), default=0)
    assert left_out <= min(counts[token] for token in ids)


def test_tokens_are_counted_over_all_rows():
    """Counts add up over rows; an empty row adds nothing."""
    assert count_tokens([[1, 2, 1], [], [2, 1]]) == Counter({1: 3, 2: 2})


def test_the_inverse_mapping_undoes_the_mapping():
    """Every draft id comes back from its target id, unsorted mappings too; the rest is -1."""
    ids = torch.tensor([7, 2, 9])
    inverse = draft_ids_by_target_id(ids, 10)
    assert inverse[ids].tolist() == [0, 1, 2]
    assert inverse.tolist().count(-1) == 7
    assert inverse.dtype == torch.int64

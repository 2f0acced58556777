"""Training batches: every row once, sizes bounded, targets restricted to the draft vocabulary."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3.train.batches import batches, collate
from eagle3.train.features import FeatureRow
from eagle3.train.vocabulary import draft_ids_by_target_id

INVERSE = draft_ids_by_target_id(torch.tensor([2, 5, 7, 9]), 12)


def row(number, length, *, top_ids=(5, 3, 9), top_probs=(0.5, 0.25, 0.125)):
    """A row whose token ids are its number and whose features are its number plus the position."""
    return FeatureRow(
        input_ids_S=torch.full((length,), number, dtype=torch.int32),
        answer_mask_S=(torch.arange(length) >= length // 2).to(torch.uint8),
        taps_SF=(number + torch.arange(length)[:, None] / 64).to(torch.bfloat16),
        top_ids_SK=torch.tensor([top_ids] * length, dtype=torch.int32),
        top_probs_SK=torch.tensor([top_probs] * length, dtype=torch.float16),
    )


def test_rows_are_padded_on_the_right():
    """Real positions keep their values; padding is no answer and has no feature."""
    batch = collate([row(1, 2), row(2, 4)], INVERSE, 100)
    assert batch.input_ids_BS.tolist() == [[1, 1, 0, 0], [2, 2, 2, 2]]
    assert batch.answer_BS.tolist() == [[False, True, False, False], [False, False, True, True]]
    assert batch.taps_BSF[0, :, 0].tolist() == [1.0, 1.015625, 0.0, 0.0]
    assert (batch.input_ids_BS.dtype, batch.answer_BS.dtype) == (torch.int64, torch.bool)
    assert not batch.top_probs_BSK[0, 2:].any()


def test_probabilities_are_restricted_to_the_draft_vocabulary():
    """Target ids 5 and 9 are draft ids 1 and 3; id 3 has none: its mass is gone and the rest sums to one."""
    batch = collate([row(1, 2)], INVERSE, 100)
    ids, probs = batch.top_draft_ids_BSK[0, 0], batch.top_probs_BSK[0, 0]
    assert ids.tolist() == [1, 0, 3]
    assert probs.tolist() == pytest.approx([0.8, 0.0, 0.2])
    assert bool(batch.argmax_in_vocabulary_BS[0, 0])


def test_a_first_choice_outside_the_draft_vocabulary_is_flagged():
    """The target's own choice is the first of its top tokens, whatever the others are."""
    batch = collate([row(1, 2, top_ids=(3, 5, 9))], INVERSE, 100)
    assert not batch.argmax_in_vocabulary_BS[0, 0]
    assert batch.top_probs_BSK[0, 0].tolist() == pytest.approx([0.0, 2 / 3, 1 / 3])


def test_no_probability_inside_the_vocabulary_divides_by_nothing():
    """With every top token outside, or none stored (before the first answer), probabilities are zero, not NaN."""
    outside = collate([row(1, 2, top_ids=(3, 4, 6))], INVERSE, 100)
    absent = collate([row(1, 2, top_ids=(0, 0, 0), top_probs=(0.0, 0.0, 0.0))], INVERSE, 100)
    for batch in (outside, absent):
        assert batch.top_probs_BSK.tolist() == [[[0.0] * 3] * 2]
        assert not batch.argmax_in_vocabulary_BS.any()


def test_rows_are_cut_at_the_greatest_length():
    """Longer rows lose their end, shorter ones are padded no further than that."""
    batch = collate([row(1, 9), row(2, 3)], INVERSE, 5)
    assert batch.input_ids_BS.tolist() == [[1] * 5, [2, 2, 2, 0, 0]]
    assert batch.taps_BSF.shape == (2, 5, 1)
    assert batch.answer_BS[0].tolist() == [False] * 4 + [True]


def epoch(lengths, seed, size=40, max_length=20):
    rows = [row(number + 1, length) for number, length in enumerate(lengths)]
    rng = None if seed is None else random.Random(seed)
    return list(batches(rows, INVERSE, positions_per_batch=size, max_length=max_length, rng=rng))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.one_of(st.none(), st.integers(0, 99)))
def test_an_epoch_covers_every_row_once_in_bounded_batches(lengths, seed):
    """Any lengths, shuffled or not: each row in one batch, and no batch of several rows above the bound."""
    given_batches = epoch(lengths, seed)
    numbers = [number for batch in given_batches for number in batch.input_ids_BS[:, 0].tolist()]
    assert sorted(numbers) == list(range(1, len(lengths) + 1))
    for batch in given_batches:
        count, longest = batch.input_ids_BS.shape
        assert count == 1 or count * longest <= 40
        assert longest <= 20
        for index, number in enumerate(batch.input_ids_BS[:, 0].tolist()):
            assert int((batch.input_ids_BS[index] == number).sum()) == min(lengths[number - 1], 20)


def numbers_of(batches_):
    return [batch.input_ids_BS[:, 0].tolist() for batch in batches_]


def test_the_order_depends_on_the_seed_alone():
    """One seed gives one order, another seed another; without a generator rows come by length."""
    lengths = [3, 9, 4, 12, 7, 5, 8, 15, 6, 11] * 3
    assert numbers_of(epoch(lengths, 1)) == numbers_of(epoch(lengths, 1))
    assert numbers_of(epoch(lengths, 1)) != numbers_of(epoch(lengths, 2))
    plain = [lengths[number - 1] for batch in numbers_of(epoch(lengths, None)) for number in batch]
    assert plain == sorted(lengths)


def test_rows_of_similar_length_stand_side_by_side():
    """Little is wasted: with lengths from 1 to 100, under a fifth of all positions is padding."""
    lengths = [1 + number * 37 % 100 for number in range(200)]
    given_batches = epoch(lengths, 0, size=600, max_length=100)
    assert sum(batch.input_ids_BS.numel() for batch in given_batches) < sum(lengths) / 0.8

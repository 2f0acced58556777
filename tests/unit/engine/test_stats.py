"""Counters of speculative decoding."""

from __future__ import annotations

import pytest

from eagle3.engine.stats import DecodeStats


def test_no_cycle_no_division():
    """Before the first cycle every ratio is zero."""
    stats = DecodeStats()
    assert stats.tau == 0.0
    assert stats.acceptance_by_depth == []
    assert stats.tokens_per_s == 0.0


def test_tau_counts_the_bonus_token():
    """Cycles that accept 3, 0 and 1 emit 4 + 1 + 2 tokens: tau is 7 / 3."""
    stats = DecodeStats()
    for accepted in (3, 0, 1):
        stats.count_cycle(drafted=8, accepted=accepted, kept_tokens=accepted + 1)
    assert stats.tau == pytest.approx(7 / 3)
    assert (stats.cycles, stats.cycle_tokens, stats.drafted) == (3, 7, 24)
    assert stats.accepted_at_depth == [2, 1, 1]
    assert stats.acceptance_by_depth == pytest.approx([2 / 3, 1 / 3, 1 / 3])


def test_plain_cycles_are_told_apart():
    """Two drafted cycles of 4 and 1 tokens beside three plain ones: tau is 8 / 5, drafted cycles emitted 5 / 2."""
    stats = DecodeStats()
    for drafted, accepted in ((8, 3), (0, 0), (0, 0), (8, 0), (0, 0)):
        stats.count_cycle(drafted=drafted, accepted=accepted, kept_tokens=accepted + 1)
    assert stats.tau == pytest.approx(8 / 5)
    assert (stats.drafted_cycles, stats.drafted_cycle_tokens) == (2, 5)
    assert stats.acceptance_by_depth == pytest.approx([1 / 5] * 3)


def test_tokens_cut_off_are_not_counted():
    """R22: of four accepted tokens, the end of text being the second, two count; the bonus does not."""
    stats = DecodeStats()
    stats.count_cycle(drafted=4, accepted=4, kept_tokens=2)
    assert stats.cycle_tokens == 2
    assert stats.accepted_at_depth == [1, 1]
    assert stats.tau == 2.0


def test_add_sums_every_counter():
    """Adding answers adds every field; depths that only one of them reached are kept."""
    left = DecodeStats(
        cycles=2, cycle_tokens=5, drafted=16, accepted_at_depth=[2, 1], draft_s=1.0, verify_s=2.0, prefill_s=0.5,
        total_s=4.0, output_tokens=6,
    )  # fmt: skip
    right = DecodeStats(
        cycles=1, cycle_tokens=4, drafted=8, accepted_at_depth=[1, 1, 1], draft_s=0.25, verify_s=0.5, prefill_s=0.25,
        total_s=1.0, output_tokens=5,
    )  # fmt: skip
    left.add(right)
    assert left == DecodeStats(
        cycles=3, cycle_tokens=9, drafted=24, accepted_at_depth=[3, 2, 1], draft_s=1.25, verify_s=2.5, prefill_s=0.75,
        total_s=5.0, output_tokens=11,
    )  # fmt: skip
    assert right.accepted_at_depth == [1, 1, 1]
    assert left.tokens_per_s == 11 / 5


def test_add_misses_no_field():
    """A counter that is added to the class is added by `add` too."""
    ones = {name: 1 for name in DecodeStats.__dataclass_fields__ if name != "accepted_at_depth"}
    total = DecodeStats(**ones, accepted_at_depth=[1])
    total.add(DecodeStats(**ones, accepted_at_depth=[1]))
    assert total == DecodeStats(**dict.fromkeys(ones, 2), accepted_at_depth=[2])

"""Counters that never go back, and rates between two readings."""

from __future__ import annotations

import pytest

from eagle3.metrics.totals import Rates, TotalsTracker, Window, rates_between
from metrics_doubles import snapshot


def test_rates_come_from_differences():
    """Rates describe the time between two readings, not the time since the start."""
    tracker = TotalsTracker()
    before = tracker.update(
        snapshot(cycles=100, cycle_tokens=100, accepted=(0,), output_tokens=1000, draft_s=5, verify_s=9)
    )
    after = tracker.update(
        snapshot(cycles=110, cycle_tokens=125, accepted=(10, 5), output_tokens=1030, draft_s=5.1, verify_s=9.4)
    )
    rates = rates_between(before, after, 2.0)
    assert rates.tokens_per_second == 15.0
    assert rates.acceptance_rate == 2.5
    assert rates.draft_latency_ms == pytest.approx(10.0)
    assert rates.verify_latency_ms == pytest.approx(40.0)
    assert rates.acceptance_by_depth == (1.0, 0.5)


def test_plain_cycles_are_no_rejections():
    """Ten cycles that drafted and emitted 25 tokens are 2.5 a cycle, however many plain ones load puts beside them."""
    tracker = TotalsTracker()
    before = tracker.read()
    after = tracker.update(
        snapshot(cycles=100, plain=90, cycle_tokens=115, accepted=(10, 5), output_tokens=115, draft_s=1.0, verify_s=2.0)
    )
    rates = rates_between(before, after, 1.0)
    assert rates.acceptance_rate == 2.5
    assert rates.acceptance_by_depth == (1.0, 0.5)
    assert rates.draft_latency_ms == pytest.approx(10.0), "latencies are those of every cycle"
    assert (after["cycles"], after["cycle_tokens"]) == (100, 115), "tau of all cycles can be read still"
    assert (after["drafted_cycles"], after["drafted_cycle_tokens"]) == (10, 25)


def test_plain_cycles_alone_have_no_rate_of_acceptance():
    """Where nothing is drafted, acceptance is absent, and not 1, which would ring the alarm."""
    tracker = TotalsTracker()
    before = tracker.update(snapshot(cycles=4, cycle_tokens=9, accepted=(4, 1), output_tokens=9))
    after = tracker.update(snapshot(cycles=44, plain=40, cycle_tokens=49, accepted=(4, 1), output_tokens=49))
    rates = rates_between(before, after, 10.0)
    assert (rates.acceptance_rate, rates.acceptance_by_depth) == (None, ())
    assert rates.tokens_per_second == 4.0


def test_accepts_nothing():
    """Cycles that accept no draft token have an acceptance rate of exactly 1 and zeros by depth."""
    tracker = TotalsTracker()
    before = tracker.update(snapshot(cycles=1, cycle_tokens=2, accepted=(1,)))
    after = tracker.update(snapshot(cycles=9, cycle_tokens=10, accepted=(1,)))
    rates = rates_between(before, after, 1.0)
    assert rates.acceptance_rate == 1.0
    assert rates.acceptance_by_depth == (0.0,)


def test_without_cycles_there_is_no_rate_of_acceptance():
    """An idle interval has tokens per second (0) but no acceptance rate and no latency per cycle."""
    tracker = TotalsTracker()
    reading = tracker.update(snapshot(cycles=4, cycle_tokens=8, output_tokens=9, draft_s=1.0))
    assert rates_between(reading, reading, 10.0) == Rates(tokens_per_second=0.0)


def test_no_time_no_rates():
    """Two readings at the same moment say nothing, instead of dividing by zero."""
    reading = TotalsTracker().update(snapshot(cycles=4, output_tokens=9))
    assert rates_between(reading, reading, 0.0) == Rates()


def test_an_engine_that_reports_no_times_has_no_latency():
    """Cycles without seconds leave the latencies out; they are not 0 ms."""
    tracker = TotalsTracker()
    before = tracker.read()
    after = tracker.update(snapshot(cycles=4, cycle_tokens=8, output_tokens=8))
    rates = rates_between(before, after, 1.0)
    assert rates.acceptance_rate == 2.0
    assert rates.draft_latency_ms is None
    assert rates.verify_latency_ms is None


def test_counters_survive_an_engine_that_starts_again_at_zero():
    """After a decrease the counters stand still for one step and go on."""
    tracker = TotalsTracker()
    tracker.update(snapshot(cycles=50, output_tokens=500, accepted=(20, 10)))
    fallen = tracker.update(snapshot(cycles=3, output_tokens=20, accepted=(2,)))
    assert fallen["output_tokens"] == 500
    assert fallen.accepted_at_depth == (20, 10)
    risen = tracker.update(snapshot(cycles=5, output_tokens=40, accepted=(3, 1)))
    assert risen["output_tokens"] == 520
    assert risen["cycles"] == 52
    assert risen.accepted_at_depth == (21, 11)


def test_a_recount_counts_nothing_twice():
    """A count that falls a little, as when an answer's end is cut off, does not add the whole count again."""
    tracker = TotalsTracker()
    tracker.update(snapshot(output_tokens=1000))
    tracker.update(snapshot(output_tokens=997))
    assert tracker.update(snapshot(output_tokens=1010))["output_tokens"] == 1013


def test_depths_are_bounded():
    """However deep a snapshot claims to be, the labels stay within the deepest tree that a config allows."""
    assert len(TotalsTracker().update(snapshot(cycles=1, accepted=(1,) * 500)).accepted_at_depth) == 32


def test_window_begins_anew_when_it_closes():
    """Each interval has its own rates."""
    tracker = TotalsTracker()
    window = Window(0.0, tracker.read())
    assert window.rates == Rates()
    assert window.close(10.0, tracker.update(snapshot(output_tokens=100))).tokens_per_second == 10.0
    assert window.age_s(14.0) == 4.0
    assert window.close(20.0, tracker.update(snapshot(output_tokens=120))).tokens_per_second == 2.0
    assert window.rates.tokens_per_second == 2.0

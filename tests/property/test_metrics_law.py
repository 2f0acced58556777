"""Laws of the metrics."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from eagle3.engine.interface import EngineSnapshot, EngineState
from eagle3.engine.stats import DecodeStats
from eagle3.metrics.emf import EmfFormat
from eagle3.metrics.registry import IntervalReport, Metrics
from eagle3.metrics.totals import Rates, TotalsTracker, rates_between
from metrics_doubles import ManualClock, check_emf, scrape, settings, snapshot

CYCLES = st.lists(st.lists(st.integers(0, 8), max_size=12), min_size=1, max_size=6)
"""Intervals of cycles, each given by how many draft tokens it accepted."""


@given(CYCLES)
def test_tau_is_one_plus_accepted_per_cycle(intervals):
    """Without cut-offs, τ of every interval is 1 + accepted / cycles, and the shares by depth add up to τ − 1."""
    tracker, stats = TotalsTracker(), DecodeStats()
    before = tracker.read()
    for interval in intervals:
        for accepted in interval:
            stats.count_cycle(drafted=8, accepted=accepted, kept_tokens=accepted + 1)
        after = tracker.update(EngineSnapshot(stats=stats))
        rates = rates_between(before, after, 10.0)
        before = after
        if not interval:
            assert rates.acceptance_rate is None
            continue
        tau = 1 + sum(interval) / len(interval)
        assert rates.acceptance_rate is not None
        assert abs(rates.acceptance_rate - tau) < 1e-12
        assert abs(sum(rates.acceptance_by_depth) - (tau - 1)) < 1e-9
        assert list(rates.acceptance_by_depth) == sorted(rates.acceptance_by_depth, reverse=True)


@given(CYCLES, st.integers(0, 50))
def test_plain_cycles_change_nothing_but_tau(intervals, plain):
    """However many plain cycles run beside them, the acceptance length is that of the drafted ones."""
    rates = []
    for beside in (0, plain):
        stats = DecodeStats()
        for accepted in (accepted for interval in intervals for accepted in interval):
            stats.count_cycle(drafted=8, accepted=accepted, kept_tokens=accepted + 1)
        for _ in range(beside):
            stats.count_cycle(drafted=0, accepted=0, kept_tokens=1)
        tracker = TotalsTracker()
        rates.append(rates_between(tracker.read(), tracker.update(EngineSnapshot(stats=stats)), 10.0))
    assert rates[0].acceptance_rate == rates[1].acceptance_rate
    assert rates[0].acceptance_by_depth == rates[1].acceptance_by_depth


@given(CYCLES, st.integers(0, 5))
def test_exported_counters_never_fall(intervals, crash):
    """Whatever an engine counts, a restart at zero included, no exported counter ever falls."""
    clock = ManualClock()
    metrics = Metrics(settings(), clock=clock)
    stats, last = DecodeStats(), {}
    for place, interval in enumerate(intervals):
        if place == crash:
            stats = DecodeStats()
        for accepted in interval:
            stats.count_cycle(drafted=8, accepted=accepted, kept_tokens=accepted + 1)
        metrics.engine(EngineSnapshot(stats=stats), EngineState.READY)
        clock.advance(10.0)
        counters = {
            (name, labels): value
            for name, family in scrape(metrics).items()
            if name.startswith("eagle3_") and name.endswith("_total")
            for labels, value in family.items()
        }
        assert all(counters[key] >= value for key, value in last.items())
        last = counters


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20))
def test_totals_are_the_sum_of_the_rises(counts):
    """A counter is the sum of the rises of what the engine reported."""
    tracker = TotalsTracker()
    for count in counts:
        totals = tracker.update(snapshot(output_tokens=count))
    assert totals["output_tokens"] == sum(max(0, now - then) for then, now in zip([0, *counts], counts, strict=False))


@given(
    st.lists(st.floats(0, 1e6), max_size=350),
    st.lists(st.floats(0, 1e6), max_size=350),
    st.lists(st.floats(0, 1), max_size=32),
    st.dictionaries(st.text("abcdef_", min_size=1, max_size=20), st.integers(1, 1000), max_size=33),
)
def test_records_follow_the_published_rules(e2e, ttft, by_depth, rejected):
    """Any report becomes valid records that carry every latency exactly once."""
    report = IntervalReport(
        rates=Rates(acceptance_by_depth=tuple(by_depth)), queue_depth=0, e2e_ms=tuple(e2e), ttft_ms=tuple(ttft),
        rejected=rejected,
    )  # fmt: skip
    documents = [check_emf(text) for text in EmfFormat(settings()).records(report, datetime.now(UTC))]
    for name, values in (("E2ELatencyMs", e2e), ("TimeToFirstTokenMs", ttft)):
        found = [document[name] for document in documents if name in document]
        assert sum(len(value) if isinstance(value, list) else 1 for value in found) == len(values)

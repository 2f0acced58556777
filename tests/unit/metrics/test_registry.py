"""The registry as Prometheus reads it, and as the CloudWatch publisher does."""

from __future__ import annotations

import math

import pytest

from eagle3.engine.interface import EngineState
from eagle3.metrics.catalogue import CATALOGUE
from eagle3.metrics.registry import MAX_LABEL_VALUES, Metrics
from metrics_doubles import ManualClock, scrape, settings, snapshot

READY = EngineState.READY


@pytest.fixture
def clock():
    """Time that stands still unless told."""
    return ManualClock()


@pytest.fixture
def metrics(clock):
    """A registry with intervals of ten seconds."""
    return Metrics(settings(), clock=clock)


def finish(metrics, outcome="stop", e2e_s=0.4, ttft_s=0.05, prompt_tokens=10, output_tokens=20):
    """One finished request."""
    metrics.request_finished(
        outcome, e2e_s=e2e_s, ttft_s=ttft_s, prompt_tokens=prompt_tokens, output_tokens=output_tokens
    )


def test_exposes_exactly_the_catalogue(metrics):
    """Every family of the catalogue is there with its type and help; beyond them only those of the process."""
    body, content_type = metrics.prometheus()
    text = body.decode()
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    helps = {
        line.split()[2]: line.split(maxsplit=3)[3] for line in text.splitlines() if line.startswith("# HELP eagle3")
    }
    names = {entry.prometheus + ("_total" if entry.kind == "counter" else ""): entry for entry in CATALOGUE}
    assert {name: entry.kind for name, entry in names.items()} == {
        name: kind for name, kind in kinds.items() if name.startswith("eagle3_")
    }
    assert {name: entry.help for name, entry in names.items()} == helps
    assert {name.split("_")[0] for name in kinds} == {"eagle3", "process", "python"}


def test_two_registries_share_nothing(clock):
    """A second registry in the same process starts at zero and disturbs nothing."""
    first, second = Metrics(settings(), clock=clock), Metrics(settings(), clock=clock)
    finish(first)
    assert scrape(first)["eagle3_requests_total"] == {(("outcome", "stop"),): 1.0}
    assert "eagle3_requests_total" not in scrape(second)


def test_rates_wait_for_the_end_of_an_interval(metrics, clock):
    """Scrapes within an interval see the rates of the one that ended; before the first there are none."""
    metrics.engine(snapshot(), READY)
    clock.advance(1.0)
    metrics.engine(snapshot(cycles=10, cycle_tokens=20, output_tokens=21), READY)
    assert "eagle3_tokens_per_second" not in scrape(metrics)
    clock.advance(9.0)
    metrics.engine(snapshot(cycles=40, cycle_tokens=100, accepted=(40, 20), output_tokens=105), READY)
    samples = scrape(metrics)
    assert samples["eagle3_tokens_per_second"] == {(): 10.5}
    assert samples["eagle3_acceptance_rate"] == {(): 2.5}
    assert samples["eagle3_acceptance_by_depth"] == {(("depth", "1"),): 1.0, (("depth", "2"),): 0.5}
    clock.advance(1.0)
    metrics.engine(snapshot(cycles=41, cycle_tokens=101, accepted=(40, 20), output_tokens=106), READY)
    assert scrape(metrics)["eagle3_acceptance_rate"] == {(): 2.5}
    clock.advance(9.0)
    metrics.engine(snapshot(cycles=41, cycle_tokens=101, accepted=(40, 20), output_tokens=106), READY)
    assert scrape(metrics)["eagle3_acceptance_rate"] == {(): 1.0}


def test_an_idle_interval_has_no_acceptance_rate(metrics, clock):
    """No cycles: the samples are absent, neither 0 nor NaN; tokens per second are 0."""
    metrics.engine(snapshot(cycles=5, cycle_tokens=9, output_tokens=9, draft_s=1, verify_s=1), READY)
    clock.advance(10.0)
    metrics.engine(snapshot(cycles=5, cycle_tokens=9, output_tokens=9, draft_s=1, verify_s=1), READY)
    clock.advance(10.0)
    metrics.engine(snapshot(cycles=5, cycle_tokens=9, output_tokens=9, draft_s=1, verify_s=1), READY)
    samples = scrape(metrics)
    for name in ("acceptance_rate", "acceptance_by_depth", "draft_latency_ms", "verify_latency_ms"):
        assert f"eagle3_{name}" not in samples
    assert samples["eagle3_tokens_per_second"] == {(): 0.0}
    assert not any(math.isnan(value) for family in samples.values() for value in family.values())


def test_counters_of_the_engine(metrics):
    """The counters behind every ratio are exported, depth by depth."""
    metrics.engine(
        snapshot(
            cycles=14, plain=4, cycle_tokens=29, accepted=(9, 6), output_tokens=30, draft_s=0.5, verify_s=1.5,
            prompt_tokens=100, reused_prompt_tokens=48, preemptions=2, restarts=1, cache_tokens=4096,
            cache_tokens_used=128, waiting=3,
        ),
        READY,
    )  # fmt: skip
    samples = scrape(metrics)
    expected = {
        "output_tokens_total": 30, "cycles_total": 14, "cycle_tokens_total": 29, "drafted_nodes_total": 30,
        "drafted_cycles_total": 10, "drafted_cycle_tokens_total": 25,
        "draft_seconds_total": 0.5, "verify_seconds_total": 1.5, "prompt_tokens_total": 100,
        "reused_prompt_tokens_total": 48, "preemptions_total": 2, "engine_restarts_total": 1, "cache_tokens": 4096,
        "cache_tokens_used": 128, "engine_ready": 1, "emf_dropped_total": 0,
    }  # fmt: skip
    assert {name: samples[f"eagle3_{name}"][()] for name in expected} == expected
    assert samples["eagle3_accepted_tokens_total"] == {(("depth", "1"),): 9.0, (("depth", "2"),): 6.0}


def test_gpu_memory_only_when_known(metrics):
    """On a machine without a GPU the gauge is absent."""
    metrics.engine(snapshot(), READY)
    assert "eagle3_gpu_memory_used_mb" not in scrape(metrics)
    metrics.engine(snapshot(gpu_memory_mb=1024.5), READY)
    assert scrape(metrics)["eagle3_gpu_memory_used_mb"] == {(): 1024.5}


@pytest.mark.parametrize("state", [EngineState.LOADING, EngineState.FAILED, EngineState.STOPPED])
def test_not_ready(metrics, state):
    """Only READY is ready; the queue is measured in every state."""
    metrics.watch(queue_depth=lambda: 7, running=lambda: 2)
    metrics.engine(snapshot(waiting=3), state)
    samples = scrape(metrics)
    assert samples["eagle3_engine_ready"] == {(): 0.0}
    assert samples["eagle3_queue_depth"] == {(): 10.0}
    assert samples["eagle3_running"] == {(): 2.0}


def test_requests(metrics):
    """Outcomes, reasons and cache look-ups are counted; latencies fill histograms in milliseconds."""
    finish(metrics)
    finish(metrics, "cancelled", ttft_s=None, e2e_s=2.0)
    metrics.request_rejected("queue_full")
    metrics.request_rejected("queue_full")
    metrics.response_cache(True)
    metrics.response_cache(False)
    samples = scrape(metrics)
    assert samples["eagle3_requests_total"] == {(("outcome", "cancelled"),): 1.0, (("outcome", "stop"),): 1.0}
    assert samples["eagle3_requests_rejected_total"] == {(("reason", "queue_full"),): 2.0}
    assert samples["eagle3_response_cache_total"] == {(("result", "hit"),): 1.0, (("result", "miss"),): 1.0}
    assert samples["eagle3_e2e_latency_ms_sum"] == {(): 2400.0}
    assert samples["eagle3_e2e_latency_ms_bucket"][(("le", "500.0"),)] == 1.0
    assert samples["eagle3_time_to_first_token_ms_count"] == {(): 1.0}
    assert samples["eagle3_request_output_tokens_sum"] == {(): 40.0}


def test_label_values_are_bounded(metrics):
    """Reasons that come from outside cannot make series without end: the later ones count as `other`."""
    for number in range(1000):
        metrics.request_rejected(f"reason {number}")
        finish(metrics, f"outcome {number}")
    samples = scrape(metrics)
    for name in ("requests_rejected", "requests"):
        family = samples[f"eagle3_{name}_total"]
        assert len(family) == MAX_LABEL_VALUES + 1
        assert sum(family.values()) == 1000


def test_constant_labels_are_on_every_sample(clock):
    """Labels of the deployment stand on counters, gauges and histograms alike."""
    metrics = Metrics(settings(), labels={"model": "tiny"}, clock=clock)
    metrics.request_rejected("queue_full")
    finish(metrics)
    for name, family in scrape(metrics).items():
        if name.startswith("eagle3_"):
            assert all(("model", "tiny") in labels for labels in family), name


def test_interval_report_holds_each_observation_once(metrics, clock):
    """CloudWatch gets every latency and rejection in exactly one report, and the queue in every report."""
    metrics.watch(queue_depth=lambda: 4, running=lambda: 1)
    finish(metrics)
    finish(metrics, e2e_s=0.6, ttft_s=None)
    metrics.request_rejected("too_long")
    metrics.engine(snapshot(cycles=10, cycle_tokens=30, output_tokens=30, gpu_memory_mb=5.0), READY)
    clock.advance(10.0)
    report = metrics.take_interval()
    assert report.e2e_ms == (400.0, 600.0)
    assert report.ttft_ms == (50.0,)
    assert report.rejected == {"too_long": 1}
    assert report.rates.tokens_per_second == 3.0
    assert report.rates.acceptance_rate == 3.0
    assert (report.queue_depth, report.gpu_memory_mb) == (4, 5.0)
    clock.advance(10.0)
    metrics.request_rejected("too_long")
    report = metrics.take_interval()
    assert (report.e2e_ms, report.ttft_ms, report.rejected) == ((), (), {"too_long": 1})
    assert report.rates.acceptance_rate is None


def test_scrapes_do_not_disturb_cloudwatch(metrics, clock):
    """Prometheus's intervals are its own: scrapes between two reports change nothing in them."""
    clock.advance(9.5)
    metrics.engine(snapshot(cycles=10, cycle_tokens=20, output_tokens=20), READY)
    scrape(metrics)
    clock.advance(0.5)
    metrics.engine(snapshot(cycles=20, cycle_tokens=50, output_tokens=50), READY)
    assert metrics.take_interval().rates.acceptance_rate == 2.5


def test_without_cloudwatch_no_latency_is_kept(clock):
    """With CloudWatch off nothing drains the latencies, so none are collected."""
    metrics = Metrics(settings(emf="off"), clock=clock)
    finish(metrics)
    assert metrics.take_interval().e2e_ms == ()

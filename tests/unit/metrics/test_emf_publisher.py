"""The task that publishes to CloudWatch."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from eagle3.engine.interface import EngineState
from eagle3.errors import ConfigError
from eagle3.metrics.emf_publisher import EmfPublisher
from eagle3.metrics.registry import Metrics
from metrics_doubles import (
    FailingTransport,
    ListTransport,
    ManualClock,
    SnapshotEngine,
    StuckTransport,
    check_emf,
    scrape,
    settings,
    snapshot,
)


class Ticks:
    """A sleep that advances a clock and cancels the caller after so many ticks."""

    def __init__(self, clock, ticks):
        self.clock, self.left, self.slept = clock, ticks, []

    async def __call__(self, seconds):
        if not self.left:
            raise asyncio.CancelledError
        self.left -= 1
        self.slept.append(seconds)
        self.clock.advance(seconds)
        await asyncio.sleep(0)


async def publish(engine, transport, *, ticks, metrics=None, clock=None, **values):
    """Run a publisher for some ticks; gives its registry."""
    clock = clock or ManualClock()
    config = settings(**values)
    metrics = metrics or Metrics(config, clock=clock)
    publisher = EmfPublisher(
        metrics, config, engine, transport=transport, clock=clock, sleep=Ticks(clock, ticks), wall_clock=time.time
    )
    with contextlib.suppress(asyncio.CancelledError):
        await publisher.run()
    return metrics


async def test_every_tick_sends_the_queue():
    """Nothing happens for three intervals, and while the engine loads: three records with QueueDepth 0, then one at
    the end."""
    transport = ListTransport()
    await publish(SnapshotEngine(snapshot(), state=EngineState.LOADING), transport, ticks=3)
    assert [check_emf(line.decode().rstrip())["QueueDepth"] for line in transport.lines] == [0, 0, 0, 0]
    assert transport.closed


async def test_rates_of_each_interval():
    """Each record has the rates of its own interval, from differences of the engine's counters."""
    transport = ListTransport()
    engine = SnapshotEngine(
        snapshot(cycles=10, cycle_tokens=20, output_tokens=50),
        snapshot(cycles=20, cycle_tokens=50, output_tokens=150),
    )
    await publish(engine, transport, ticks=3)
    rates = [(document.get("AcceptanceRate"), document.get("TokensPerSecond")) for document in transport.documents]
    assert rates == [(2.0, 5.0), (3.0, 10.0), (None, 0.0), (None, None)]


async def test_what_is_left_at_the_end_is_sent():
    """Requests that finished after the last tick are in the record that stopping sends."""
    transport, clock = ListTransport(), ManualClock()
    metrics = Metrics(settings(), clock=clock)
    metrics.request_finished("stop", e2e_s=0.25, ttft_s=None, prompt_tokens=1, output_tokens=1)
    await publish(SnapshotEngine(snapshot()), transport, ticks=0, metrics=metrics, clock=clock)
    assert [document["E2ELatencyMs"] for document in transport.documents] == [250.0]


async def test_survives_an_engine_without_answers(caplog):
    """A snapshot that fails or never comes costs neither the task nor QueueDepth, and is logged once a burst."""
    transport = ListTransport()
    engine = SnapshotEngine(RuntimeError("gone"), None, RuntimeError("gone"), snapshot())
    await publish(engine, transport, ticks=4, interval_s=0.05)
    assert [document["QueueDepth"] for document in transport.documents] == [0] * 5
    assert caplog.text.count("no snapshot") == 1
    assert "RuntimeError: gone" in caplog.text


async def test_survives_a_queue_that_cannot_be_read(caplog):
    """Even a fault in making the record does not end the task."""
    transport, clock = ListTransport(), ManualClock()
    metrics = Metrics(settings(), clock=clock)
    depths = iter([1, 2])
    metrics.watch(queue_depth=lambda: next(depths), running=int)
    await publish(SnapshotEngine(snapshot()), transport, ticks=4, metrics=metrics, clock=clock)
    assert [document["QueueDepth"] for document in transport.documents] == [1, 2]
    assert caplog.text.count("no CloudWatch record could be made") == 1


async def test_lost_records_are_counted():
    """Records that nobody took appear as a counter."""
    metrics = await publish(SnapshotEngine(snapshot()), FailingTransport(), ticks=2)
    assert scrape(metrics)["eagle3_emf_dropped_total"] == {(): 3.0}


async def test_a_blocked_transport_does_not_block_the_loop():
    """While a write hangs, ticks go on."""
    transport = StuckTransport()
    start = time.monotonic()
    task = asyncio.create_task(publish(SnapshotEngine(snapshot()), transport, ticks=50))
    while not transport.entered.is_set():
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    assert time.monotonic() - start < 2
    transport.release.set()
    await task
    assert len(transport.lines) == 51


async def test_late_ticks_are_not_made_up_for():
    """After the loop was held up for three and a half intervals, the next wait is none and then a whole interval."""
    clock = ManualClock()
    ticks = Ticks(clock, 3)

    class SlowEngine(SnapshotEngine):
        async def snapshot(self):
            clock.advance(35.0 if len(ticks.slept) == 1 else 0.0)
            return await super().snapshot()

    config = settings()
    publisher = EmfPublisher(
        Metrics(config, clock=clock), config, SlowEngine(snapshot()), transport=ListTransport(), clock=clock,
        sleep=ticks,
    )  # fmt: skip
    with contextlib.suppress(asyncio.CancelledError):
        await publisher.run()
    assert ticks.slept == [10.0, 0.0, 10.0]


@pytest.mark.parametrize(
    "values", [{"namespace": "AWS/Eagle3"}, {"emf": "agent", "agent_endpoint": "nowhere"}, {"dimensions": {"A": ""}}]
)
def test_bad_settings_fail_at_the_start(values):
    """What cannot work is refused when the publisher is made, not at the first tick."""
    config = settings(**values)
    with pytest.raises(ConfigError):
        EmfPublisher(Metrics(config), config, SnapshotEngine(snapshot()))

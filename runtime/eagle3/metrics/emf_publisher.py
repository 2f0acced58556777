"""The task that sends a report to CloudWatch every interval.

Knows no server. Invariants: it ends only by being cancelled; every tick sends QueueDepth, whatever the engine does
(an autoscaler that scales from zero reads it); the event loop never waits for stdout or the agent.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from eagle3.config.serving import MetricsSettings
from eagle3.engine.interface import Engine
from eagle3.metrics.emf import EmfFormat
from eagle3.metrics.emf_delivery import DescriptorTransport, RecordWriter, Transport, agent_transport
from eagle3.metrics.registry import Metrics

log = logging.getLogger(__name__)

_CLOSE_S = 2.0
_NO_SNAPSHOT = "the engine gave no snapshot for CloudWatch"
_NO_RECORD = "no CloudWatch record could be made"


class EmfPublisher:
    """Publishes one registry; make it, then keep `run()` as a task."""

    def __init__(
        self,
        metrics: Metrics,
        settings: MetricsSettings,
        engine: Engine,
        *,
        transport: Transport | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """ConfigError for a namespace, dimension or agent address that cannot work."""
        assert settings.emf != "off"
        self._metrics = metrics
        self._interval_s = settings.interval_s
        self._engine = engine
        self._format = EmfFormat(settings)
        if transport is None:
            transport = (
                DescriptorTransport(sys.stdout.fileno())
                if settings.emf == "stdout"
                else agent_transport(settings.agent_endpoint)
            )
        self._transport = transport
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._failing: set[str] = set()

    async def run(self) -> None:
        """Publish every interval until cancelled; then publish the rest and leave the writer a moment."""
        writer = RecordWriter(self._transport, self._metrics.emf_dropped)
        due_s = self._clock()
        try:
            while True:
                # A late tick is not made up for: the next one is a whole interval after the last planned one.
                due_s = max(due_s + self._interval_s, self._clock())
                await self._sleep(max(0.0, due_s - self._clock()))
                await self._refresh()
                self._publish(writer)
        finally:
            self._publish(writer)
            await asyncio.to_thread(writer.close, _CLOSE_S)

    async def _refresh(self) -> None:
        """Read the engine; without an answer in time the gauges of the last snapshot stand."""
        try:
            async with asyncio.timeout(self._interval_s / 2):
                self._metrics.engine(await self._engine.snapshot(), self._engine.state)
        except Exception as error:
            self._failed(_NO_SNAPSHOT, error)
        else:
            self._failing.discard(_NO_SNAPSHOT)

    def _publish(self, writer: RecordWriter) -> None:
        try:
            timestamp = datetime.fromtimestamp(self._wall_clock(), UTC)
            writer.offer(self._format.records(self._metrics.take_interval(), timestamp))
        except Exception as error:
            self._failed(_NO_RECORD, error)
        else:
            self._failing.discard(_NO_RECORD)

    def _failed(self, what: str, error: Exception) -> None:
        if what not in self._failing:
            log.warning("%s; said once until it works again: %s: %s", what, type(error).__name__, error)
        self._failing.add(what)

"""The one registry: every engine and the server report here, Prometheus and CloudWatch read from here.

Knows no HTTP and no network. Called from one event loop. Invariants: counters never go back; rates belong to an
interval that ended, at least `interval_s` long; label values are bounded.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from eagle3.config.serving import MetricsSettings
from eagle3.engine.interface import EngineSnapshot, EngineState
from eagle3.metrics.exposition import Exposition, Reading
from eagle3.metrics.sample import Sample
from eagle3.metrics.totals import Rates, TotalsTracker, Window

MAX_OBSERVATIONS = 10_000
"""Latencies kept for one CloudWatch interval; beyond, a uniform sample of that size."""
MAX_LABEL_VALUES = 32
"""Different outcomes or reasons told apart; later ones count as `other`."""
_EARLY = 0.9
"""Share of the interval after which it may end: readings come a little early or late."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalReport:
    """What CloudWatch gets for one interval."""

    rates: Rates
    queue_depth: int
    gpu_memory_mb: float | None = None
    e2e_ms: tuple[float, ...] = ()
    ttft_ms: tuple[float, ...] = ()
    rejected: dict[str, int] = field(default_factory=dict)
    """By reason; reasons that did not occur are left out."""


class Metrics:
    """Counters, gauges and latencies of one server."""

    def __init__(
        self,
        settings: MetricsSettings,
        *,
        labels: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        generator: random.Random | None = None,
    ) -> None:
        """`labels` are put on every Prometheus sample, such as the name of the model; most need none."""
        self._interval_s = settings.interval_s
        self._clock = clock
        self._outcomes: Counter[str] = Counter()
        self._rejected: Counter[str] = Counter()
        self._rejected_reported: Counter[str] = Counter()
        self._response_cache: Counter[str] = Counter()
        self._emf_dropped = 0
        self._emf_lock = threading.Lock()
        self._queue_depth: Callable[[], int] = int
        self._running: Callable[[], int] = int
        self._tracker = TotalsTracker()
        self._snapshot: EngineSnapshot | None = None
        self._state = EngineState.LOADING
        self._prometheus_window = Window(clock(), self._tracker.read())
        self._cloudwatch_window = Window(clock(), self._tracker.read())
        capacity = 0 if settings.emf == "off" else MAX_OBSERVATIONS
        generator = generator or random.Random()
        self._e2e_ms = Sample(capacity, generator)
        self._ttft_ms = Sample(capacity, generator)
        self._exposition = Exposition(self._read, dict(labels or {}))
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self._exposition)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def request_finished(
        self, outcome: str, *, e2e_s: float, ttft_s: float | None, prompt_tokens: int, output_tokens: int
    ) -> None:
        """A request that reached the engine's queue ended; `ttft_s` is None if no token came."""
        self._outcomes[_bounded(outcome, self._outcomes)] += 1
        self._exposition.observe("e2e_latency_ms", e2e_s * 1e3)
        self._e2e_ms.add(e2e_s * 1e3)
        if ttft_s is not None:
            self._exposition.observe("time_to_first_token_ms", ttft_s * 1e3)
            self._ttft_ms.add(ttft_s * 1e3)
        self._exposition.observe("request_prompt_tokens", prompt_tokens)
        self._exposition.observe("request_output_tokens", output_tokens)

    def request_rejected(self, reason: str) -> None:
        """A request was refused, such as for `queue_full` or `prompt_too_long`."""
        self._rejected[_bounded(reason, self._rejected)] += 1

    def response_cache(self, hit: bool) -> None:
        """The cache of whole responses was asked."""
        self._response_cache["hit" if hit else "miss"] += 1

    def emf_dropped(self, records: int) -> None:
        """CloudWatch records could not be delivered; the one method that another thread may call."""
        with self._emf_lock:
            self._emf_dropped += records

    def watch(self, *, queue_depth: Callable[[], int], running: Callable[[], int]) -> None:
        """Where to read the server's queue and the number of requests in the engine; read at every export."""
        self._queue_depth = queue_depth
        self._running = running

    def engine(self, snapshot: EngineSnapshot, state: EngineState) -> None:
        """Take in a snapshot of the engine; call it before each export."""
        self._snapshot = snapshot
        self._state = state
        totals = self._tracker.update(snapshot)
        now_s = self._clock()
        if self._prometheus_window.age_s(now_s) >= _EARLY * self._interval_s:
            self._prometheus_window.close(now_s, totals)

    def prometheus(self) -> tuple[bytes, str]:
        """Body and content type for a scrape."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

    def take_interval(self) -> IntervalReport:
        """What happened since the last call; for the CloudWatch publisher alone."""
        rejected = self._rejected - self._rejected_reported
        self._rejected_reported = self._rejected.copy()
        return IntervalReport(
            rates=self._cloudwatch_window.close(self._clock(), self._tracker.read()),
            queue_depth=self._waiting(),
            gpu_memory_mb=self._snapshot.gpu_memory_mb if self._snapshot else None,
            e2e_ms=self._e2e_ms.take(),
            ttft_ms=self._ttft_ms.take(),
            rejected=dict(rejected),
        )

    def _waiting(self) -> int:
        return self._queue_depth() + (self._snapshot.waiting if self._snapshot else 0)

    def _read(self) -> Reading:
        snapshot = self._snapshot or EngineSnapshot()
        return Reading(
            rates=self._prometheus_window.rates,
            totals=self._tracker.read(),
            gauges={
                "queue_depth": self._waiting(),
                "running": self._running(),
                "engine_ready": float(self._state is EngineState.READY),
                "cache_tokens": snapshot.cache_tokens,
                "cache_tokens_used": snapshot.cache_tokens_used,
                "gpu_memory_used_mb": snapshot.gpu_memory_mb,
            },
            labelled={
                "requests": dict(self._outcomes),
                "requests_rejected": dict(self._rejected),
                "response_cache": dict(self._response_cache),
            },
            emf_dropped=self._emf_dropped,
        )


def _bounded(value: str, known: Counter[str]) -> str:
    return value if value in known or len(known) < MAX_LABEL_VALUES else "other"

"""Doubles for the metrics room: a clock, an engine that only gives snapshots, transports, and the published rules of
CloudWatch's embedded metric format."""

from __future__ import annotations

import asyncio
import json
import threading

from prometheus_client.parser import text_string_to_metric_families

from eagle3.config.serving import MetricsSettings
from eagle3.engine.interface import EngineSnapshot, EngineState
from eagle3.engine.stats import DecodeStats

UNITS = {"Count", "Count/Second", "Milliseconds", "Megabytes", "None"}


class ManualClock:
    """Seconds that pass when told."""

    def __init__(self, now_s: float = 100.0):
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


def settings(**values) -> MetricsSettings:
    """Settings with CloudWatch on, unless told otherwise."""
    return MetricsSettings.model_validate({"emf": "stdout", **values})


def snapshot(*, cycles=0, cycle_tokens=0, plain=0, accepted=(), output_tokens=0, draft_s=0.0, verify_s=0.0, **values):
    """A snapshot with these counters; `plain` of the cycles drafted nothing and emitted one token each."""
    stats = DecodeStats(
        cycles=cycles, cycle_tokens=cycle_tokens, accepted_at_depth=list(accepted), output_tokens=output_tokens,
        draft_s=draft_s, verify_s=verify_s, drafted=3 * (cycles - plain), drafted_cycles=cycles - plain,
        drafted_cycle_tokens=cycle_tokens - plain,
    )  # fmt: skip
    return EngineSnapshot(stats=stats, **values)


def scrape(metrics) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Sample name → labels → value, read by Prometheus's own parser."""
    body, _ = metrics.prometheus()
    samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return samples


class SnapshotEngine:
    """Gives scripted snapshots; the last one stays. An exception in the script is raised, None waits for ever."""

    def __init__(self, *script, state=EngineState.READY):
        self._script = list(script)
        self.state = state

    async def snapshot(self):
        step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(step, Exception):
            raise step
        if step is None:
            await asyncio.Event().wait()
        return step


class ListTransport:
    """Keeps what is sent."""

    def __init__(self):
        self.lines: list[bytes] = []
        self.closed = False

    def send(self, line):
        self.lines.append(line)

    def close(self):
        self.closed = True

    @property
    def documents(self):
        return [json.loads(line) for line in self.lines]


class FailingTransport(ListTransport):
    """Refuses while `broken`."""

    def __init__(self):
        super().__init__()
        self.broken = True

    def send(self, line):
        if self.broken:
            raise ConnectionRefusedError("nobody listens")
        super().send(line)


class StuckTransport(ListTransport):
    """Blocks in `send`, as a full pipe does, until `release` is set."""

    def __init__(self):
        super().__init__()
        self.entered = threading.Event()
        self.release = threading.Event()

    def send(self, line):
        self.entered.set()
        self.release.wait(30)
        super().send(line)


def check_emf(text: str) -> dict:
    """Assert that one record follows the published rules; gives the document."""
    assert "\n" not in text
    assert len(text.encode()) < 256 * 1024
    document = json.loads(text)
    meta = document["_aws"]
    assert isinstance(meta["Timestamp"], int)
    assert 1_000_000_000_000 < meta["Timestamp"] < 10_000_000_000_000, "milliseconds since 1970"
    assert meta["CloudWatchMetrics"]
    for directive in meta["CloudWatchMetrics"]:
        assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
        assert 1 <= len(directive["Namespace"]) <= 255
        assert directive["Dimensions"]
        for names in directive["Dimensions"]:
            assert len(names) <= 30
            assert len(set(names)) == len(names)
            for name in names:
                assert isinstance(document[name], str)
                assert 1 <= len(document[name]) <= 1024
        assert 1 <= len(directive["Metrics"]) <= 100
        metric_names = [metric["Name"] for metric in directive["Metrics"]]
        assert len(set(metric_names)) == len(metric_names)
        for metric in directive["Metrics"]:
            assert set(metric) <= {"Name", "Unit", "StorageResolution"}
            assert metric["Unit"] in UNITS
            assert metric["StorageResolution"] in (1, 60)
            value = document[metric["Name"]]
            values = value if isinstance(value, list) else [value]
            assert 1 <= len(values) <= 100
            assert all(isinstance(number, int | float) and not isinstance(number, bool) for number in values)
    return document

"""Reads a program's Prometheus page, and carries its counters over restarts.

Knows no program's metric names. Invariant: `LifetimeCounters.add` never goes back, though each run counts from zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from prometheus_client.parser import text_string_to_metric_families

from eagle3.engine.interface import EngineSnapshot
from eagle3.engine.stats import DecodeStats

_COUNTERS = ("prompt_tokens", "reused_prompt_tokens", "preemptions")


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one page."""

    _values: tuple[tuple[str, Mapping[str, str], float], ...]

    @classmethod
    def parse(cls, page: str) -> Samples:
        """Read the text format; ValueError when it is none."""
        families = text_string_to_metric_families(page)
        return cls(tuple((s.name, s.labels, float(s.value)) for family in families for s in family.samples))

    def total(self, name: str) -> float:
        """Sum over all label sets; 0 for a metric that is not there."""
        return sum(value for sample, _, value in self._values if sample == name)

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Sums for each value of one label."""
        sums: dict[str, float] = {}
        for sample, labels, value in self._values:
            if sample == name and label in labels:
                sums[labels[label]] = sums.get(labels[label], 0.0) + value
        return sums

    def labels(self, name: str) -> Mapping[str, str]:
        """Labels of the first sample of a metric; empty for one that is not there."""
        return next((labels for sample, labels, _ in self._values if sample == name), {})


class LifetimeCounters:
    """Sums counters over the runs of a program."""

    def __init__(self) -> None:
        self._ended = EngineSnapshot()
        self._current = EngineSnapshot()

    def see(self, snapshot: EngineSnapshot) -> None:
        """Take the counters of the present run."""
        self._current = snapshot

    def end_run(self) -> None:
        """The program has ended: what it counted last is kept; its gauges are gone."""
        self._ended = self.add()
        self._ended.running = self._ended.waiting = 0
        self._ended.cache_tokens = self._ended.cache_tokens_used = 0
        self._current = EngineSnapshot()

    def add(self) -> EngineSnapshot:
        """Counters of all runs, gauges of the present one."""
        stats = DecodeStats()
        stats.add(self._ended.stats)
        stats.add(self._current.stats)
        summed = {name: getattr(self._ended, name) + getattr(self._current, name) for name in _COUNTERS}
        return replace(self._current, stats=stats, **summed)

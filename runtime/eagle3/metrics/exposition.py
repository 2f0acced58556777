"""Prometheus families made from a reading of the registry.

Knows no engine and no interval. Invariant: the families are those of the catalogue, in its order; what is not known
has no sample. `_created` samples are left out: they double the number of series and say nothing that an alarm needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from eagle3.metrics.catalogue import BY_NAME, CATALOGUE, PREFIX, Definition
from eagle3.metrics.totals import COUNTERS, Rates, Totals

_LATENCY_MS = (
    10, 25, 50, 75, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 20_000,
    30_000, 60_000, 120_000, 300_000, 600_000,
)  # fmt: skip
_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)
_BUCKETS = {
    "e2e_latency_ms": _LATENCY_MS,
    "time_to_first_token_ms": _LATENCY_MS,
    "request_prompt_tokens": _TOKENS,
    "request_output_tokens": _TOKENS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Everything that one scrape shows, histograms apart."""

    rates: Rates
    totals: Totals
    gauges: dict[str, float | None]
    labelled: dict[str, dict[str, int]]
    """Counters with one label: name → value of the label → count."""
    emf_dropped: int


class Exposition(Collector):
    """Turns readings into families; holds the histograms, which cannot be made afterwards."""

    def __init__(self, read: Callable[[], Reading], labels: dict[str, str]) -> None:
        self._read = read
        self._labels = labels
        self._histograms = {
            name: Histogram(PREFIX + name, BY_NAME[name].help, buckets=buckets, registry=None)
            for name, buckets in _BUCKETS.items()
        }

    def observe(self, name: str, value: float) -> None:
        """Add one observation to a histogram."""
        self._histograms[name].observe(value)

    def collect(self) -> Iterator[Metric]:
        reading = self._read()
        samples = _samples(reading)
        for entry in CATALOGUE:
            name = entry.prometheus.removeprefix(PREFIX)
            if entry.kind == "histogram":
                yield self._histogram(name)
            else:
                yield self._family(entry, samples.get(name, {}))

    def _family(self, entry: Definition, samples: dict[tuple[str, ...], float]) -> Metric:
        make = CounterMetricFamily if entry.kind == "counter" else GaugeMetricFamily
        family = make(entry.prometheus, entry.help, labels=[*entry.labels, *self._labels])
        for values, number in samples.items():
            family.add_metric([*values, *self._labels.values()], number)
        return family

    def _histogram(self, name: str) -> Metric:
        (family,) = self._histograms[name].collect()
        family.samples = [
            sample._replace(labels={**sample.labels, **self._labels})
            for sample in family.samples
            if not sample.name.endswith("_created")
        ]
        return family


def _samples(reading: Reading) -> dict[str, dict[tuple[str, ...], float]]:
    """Name → label values → number."""
    rates = reading.rates
    numbers: dict[str, float | None] = {
        "tokens_per_second": rates.tokens_per_second,
        "acceptance_rate": rates.acceptance_rate,
        "draft_latency_ms": rates.draft_latency_ms,
        "verify_latency_ms": rates.verify_latency_ms,
        "emf_dropped": reading.emf_dropped,
        **reading.gauges,
        **{name: reading.totals[name] for name in COUNTERS},
    }
    samples: dict[str, dict[tuple[str, ...], float]] = {
        name: {(): number} for name, number in numbers.items() if number is not None
    }
    samples["acceptance_by_depth"] = _by_depth(rates.acceptance_by_depth)
    samples["accepted_tokens"] = _by_depth(reading.totals.accepted_at_depth)
    for name, counts in reading.labelled.items():
        samples[name] = {(value,): count for value, count in sorted(counts.items())}
    return samples


def _by_depth(values: tuple[float, ...]) -> dict[tuple[str, ...], float]:
    return {(str(depth),): value for depth, value in enumerate(values, start=1)}

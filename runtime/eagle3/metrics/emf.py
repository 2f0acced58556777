"""CloudWatch embedded-metric-format records made from one interval's report.

Knows no network and no clock. The kept library validates and serializes; its detection of the environment (which asks
the instance metadata service over the network) and its settings from `AWS_EMF_*` variables are not used. Invariants:
at most 100 metrics and 100 values a metric in a record, every metric at one-second resolution, QueueDepth in every
report, and no value that is not finite.
"""

from __future__ import annotations

from datetime import datetime

from aws_embedded_metrics.config import get_config
from aws_embedded_metrics.exceptions import DimensionSetExceededError, InvalidDimensionError, InvalidNamespaceError
from aws_embedded_metrics.logger.metrics_context import MetricsContext
from aws_embedded_metrics.serializers.log_serializer import LogSerializer
from aws_embedded_metrics.storage_resolution import StorageResolution
from aws_embedded_metrics.validator import validate_dimension_set, validate_namespace

from eagle3.config.serving import MetricsSettings
from eagle3.errors import ConfigError
from eagle3.metrics.registry import IntervalReport

MAX_RECORD_BYTES = 65_507
"""Of one UDP datagram; CloudWatch takes 256 KiB and more."""
REASON = "Reason"
"""Dimension of RejectedRequests by reason."""
_MAX_DIMENSIONS = 29  # CloudWatch allows 30; one is kept for REASON
_MAX_DIMENSION_BYTES = 12_000  # names go into a record twice; leaves room for 100 values of each latency


class EmfFormat:
    """Namespace and dimensions of every record, checked once."""

    def __init__(self, settings: MetricsSettings) -> None:
        """ConfigError if CloudWatch would refuse the namespace or a dimension."""
        _check_namespace(settings.namespace)
        _check_dimensions(settings.dimensions)
        self._namespace = settings.namespace
        self._dimensions = dict(settings.dimensions)
        self.log_group = settings.log_group or f"/{settings.namespace.strip('/').replace(':', '-')}/metrics"
        """Where a CloudWatch agent files the records."""
        _ignore_environment()

    def records(self, report: IntervalReport, timestamp: datetime) -> list[str]:
        """One JSON document a record, without line ends."""
        main = self._context(timestamp, self._dimensions)
        for name, unit, values in _measurements(report):
            for value in values:
                main.put_metric(name, value, unit, StorageResolution.HIGH)
        records = LogSerializer.serialize(main)
        for reason, count in sorted(report.rejected.items()):
            context = self._context(timestamp, {**self._dimensions, REASON: reason})
            context.put_metric("RejectedRequests", count, "Count", StorageResolution.HIGH)
            records += LogSerializer.serialize(context)
        return records

    def _context(self, timestamp: datetime, dimensions: dict[str, str]) -> MetricsContext:
        context = MetricsContext(namespace=self._namespace)
        context.set_dimensions([dimensions], use_default=False)
        context.set_timestamp(timestamp)
        context.meta["LogGroupName"] = self.log_group
        return context


def _measurements(report: IntervalReport) -> list[tuple[str, str, tuple[float, ...]]]:
    """Name, unit and values; a metric without a value is left out."""
    rates = report.rates
    single: list[tuple[str, str, float | None]] = [
        ("QueueDepth", "Count", report.queue_depth),
        ("RejectedRequests", "Count", sum(report.rejected.values())),
        ("TokensPerSecond", "Count/Second", rates.tokens_per_second),
        ("AcceptanceRate", "None", rates.acceptance_rate),
        ("DraftLatencyMs", "Milliseconds", rates.draft_latency_ms),
        ("VerifyLatencyMs", "Milliseconds", rates.verify_latency_ms),
        ("GPUMemoryUsedMB", "Megabytes", report.gpu_memory_mb),
        *((f"AcceptanceByDepth{depth}", "None", share) for depth, share in enumerate(rates.acceptance_by_depth, 1)),
    ]
    measurements: list[tuple[str, str, tuple[float, ...]]] = [
        (name, unit, (round(value, 4),)) for name, unit, value in single if value is not None
    ]
    for name, values in (("E2ELatencyMs", report.e2e_ms), ("TimeToFirstTokenMs", report.ttft_ms)):
        if values:
            measurements.append((name, "Milliseconds", tuple(round(value, 3) for value in values)))
    return measurements


def _check_namespace(namespace: str) -> None:
    try:
        validate_namespace(namespace)
    except InvalidNamespaceError as error:
        raise ConfigError(
            f"metrics.namespace: CloudWatch refuses {namespace!r}; use letters, digits and . _ # : / -"
        ) from error
    if namespace.upper().startswith("AWS/"):
        raise ConfigError(f"metrics.namespace: {namespace!r} begins with AWS/, which AWS keeps for itself; rename it")


def _check_dimensions(dimensions: dict[str, str]) -> None:
    if len(dimensions) > _MAX_DIMENSIONS:
        raise ConfigError(
            f"metrics.dimensions: got {len(dimensions)}, CloudWatch allows 30 and one is kept for {REASON}; "
            f"give at most {_MAX_DIMENSIONS}"
        )
    for name, value in dimensions.items():
        if name == REASON or name == "_aws":
            raise ConfigError(f"metrics.dimensions: {name} has a meaning of its own here; choose another name")
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in name + value):
            raise ConfigError(f"metrics.dimensions: {name!r}: {value!r} has control characters; use printable ASCII")
        try:
            validate_dimension_set({name: value})
        except (InvalidDimensionError, DimensionSetExceededError) as error:
            raise ConfigError(
                f"metrics.dimensions: {name!r}: {value!r}: {error}; names are 1 to 250 and values 1 to 1024 ASCII "
                "characters, names do not begin with ':'"
            ) from error
    size = sum(2 * len(name) + len(value) for name, value in dimensions.items())
    if size > _MAX_DIMENSION_BYTES:
        raise ConfigError(
            f"metrics.dimensions: together they take {size} bytes of each record, at most {_MAX_DIMENSION_BYTES} "
            "are allowed; shorten them"
        )


def _ignore_environment() -> None:
    """What `AWS_EMF_*` variables told the library must not change records: the deployment config alone decides."""
    config = get_config()
    config.disable_metric_extraction = False

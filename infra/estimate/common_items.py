"""What every deploying stack is billed for: endpoints and NAT of its VPC, keys, buckets, records, alarms, metrics.

Counts by the rules that the constructs follow; tests/infra/test_estimate_counts.py compares with synthesized stacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.catalogue.interface_services import InterfaceService
from infra.estimate.assumptions import Usage
from infra.estimate.item import Item
from infra.observability.alarm_catalogue import alarms_of
from infra.observability.watched import Watched
from infra.settings.network import NetworkSettings
from infra.settings.root import Settings

DAYS_PER_MONTH = 365 / 12
_METRICS = 8
"""Metrics of the runtime that reach CloudWatch in any case: rates, latencies, queue, rejections."""


def network_items(network: NetworkSettings, services: Sequence[InterfaceService], usage: Usage) -> list[Item]:
    """Interface endpoints, one a service and zone, and NAT gateways with their addresses."""
    zones = network.zone_total
    items = []
    if services:
        items += [
            Item(
                group="network",
                name="interface endpoints",
                price="interface-endpoint-zone",
                quantity=len(services) * zones,
                counted=f"{len(services)} services x {zones} zones",
            ),
            Item(
                group="network",
                name="data through interface endpoints",
                price="interface-endpoint-data",
                quantity=usage.endpoint_gb,
                counted="assumed",
            ),
        ]
    gateways = {"none": 0, "single": 1, "per-zone": zones}[network.nat]
    if gateways:
        counted = f"nat: {network.nat}"
        items += [
            Item(group="network", name="NAT gateways", price="nat-gateway", quantity=gateways, counted=counted),
            Item(group="network", name="public addresses", price="public-ipv4", quantity=gateways, counted=counted),
            Item(
                group="network",
                name="data through NAT",
                price="nat-gateway-data",
                quantity=usage.nat_gb,
                counted="assumed",
            ),
        ]
    return items


def storage_items(keys: int, weights_gb: float, usage: Usage) -> list[Item]:
    """Customer-managed keys and what is stored: weights and images."""
    return [
        Item(group="keys and storage", name="KMS keys", price="kms-key", quantity=keys, counted="one a domain"),
        Item(
            group="keys and storage",
            name="requests to keys",
            price="kms-requests",
            quantity=usage.key_requests / 10_000,
            counted="assumed",
        ),
        Item(
            group="keys and storage",
            name="model bucket (S3)",
            price="s3-storage",
            quantity=weights_gb,
            counted="weights",
        ),
        Item(
            group="keys and storage",
            name="images (ECR)",
            price="ecr-storage",
            quantity=usage.images_gb,
            counted="assumed",
        ),
    ]


def record_items(settings: Settings, network: NetworkSettings, usage: Usage) -> list[Item]:
    """CloudTrail's data events and the flow logs."""
    items = []
    if settings.audit.cloudtrail and settings.audit.data_events:
        items.append(
            Item(
                group="observability",
                name="CloudTrail, data events",
                price="cloudtrail-data-events",
                quantity=usage.object_events / 100_000,
                counted="assumed",
            )
        )
    if settings.audit.cloudtrail and settings.audit.log_group:
        items.append(_log("CloudTrail in a log group", "log-ingestion", usage.record_gb))
    flow = network.flow_logs
    if flow.enabled:
        price = "log-ingestion" if flow.destination == "cloudwatch" else "flow-log-delivery"
        items.append(_log(f"flow logs ({flow.traffic_type}) to {flow.destination}", price, usage.flow_log_gb))
    return items


def watch_items(settings: Settings, watched: Watched, machines: float, usage: Usage) -> list[Item]:
    """Alarms by metric, the dashboard, the runtime's metrics, and the log group that carries them."""
    alarms = alarms_of(watched)
    fast = sum(len(alarm.metrics) for alarm in alarms if any(metric.period_s < 60 for metric in alarm.metrics))
    slow = sum(len(alarm.metrics) for alarm in alarms) - fast
    names = f"{len(alarms)} alarms"
    items = [
        Item(
            group="observability",
            name="alarm metrics by the minute",
            price="cloudwatch-alarm-metric",
            quantity=slow,
            counted=names,
        ),
        Item(group="observability", name="dashboard", price="cloudwatch-dashboard", quantity=1, counted="one a stack"),
    ]
    if fast:
        items.append(
            Item(
                group="observability",
                name="alarm metrics below a minute",
                price="cloudwatch-alarm-metric-fast",
                quantity=fast,
                counted=names,
            )
        )
    if watched.runtime_metrics:
        count = _METRICS + watched.depth + (watched.gpu_memory_mib is not None)
        items.append(
            Item(
                group="observability",
                name="metrics of the runtime",
                price="cloudwatch-metric",
                quantity=count,
                counted="rejections by reason come on top",
                scheduled=True,
            )
        )
    written = machines * usage.log_gb_per_machine
    kept = written * settings.alarms.log_retention_days / DAYS_PER_MONTH
    return [
        *items,
        _log("logs and metric records", "log-ingestion", written),
        Item(
            group="observability",
            name="stored logs",
            price="log-storage",
            quantity=kept,
            counted=f"{settings.alarms.log_retention_days} days",
        ),
    ]


def _log(name: str, price: str, gb: float) -> Item:
    return Item(group="observability", name=name, price=price, quantity=gb, counted="assumed")

"""What the stacks small and medium are billed for: a SageMaker endpoint and what it stands on."""

from __future__ import annotations

from infra.catalogue.interface_services import endpoint_services
from infra.estimate.assumptions import Assumptions
from infra.estimate.common_items import network_items, record_items, storage_items, watch_items
from infra.estimate.item import Item
from infra.observability.watched import Watched
from infra.settings.endpoint_checks import check_endpoint
from infra.settings.endpoint_facts import instance_of, is_isolated
from infra.settings.root import EndpointStackSettings, Settings
from infra.settings.zones import stack_zones

_KEYS = 3  # data, logs, notifications
_WAKE = Item(
    group="observability",
    name="alarm metric that starts the first instance",
    price="cloudwatch-alarm-metric",
    quantity=1,
    counted="scaling from zero",
)


def endpoint_items(settings: Settings, own: EndpointStackSettings, assumptions: Assumptions) -> list[Item]:
    """Every item; ConfigError for settings that the stack refuses."""
    endpoint, usage = own.endpoint, assumptions.usage
    check_endpoint(endpoint, own.deployment, region=settings.region, has_nat=own.network.nat != "none")
    stack_zones(own.network, settings.region)
    machines = endpoint_machines(own, assumptions)
    services = endpoint_services(network_isolation=is_isolated(endpoint))
    wakes = endpoint.mode != "serverless" and endpoint.autoscaling.enabled and endpoint.fewest_instances == 0
    return [
        *_compute(own, assumptions, machines),
        Item(
            group="network",
            name="data through the endpoint",
            price="sagemaker-data",
            quantity=2 * usage.answers_gb,
            counted="requests and answers",
        ),
        Item(
            group="network",
            name="answers to the internet",
            price="internet-data",
            quantity=usage.answers_gb,
            counted="callers outside AWS",
        ),
        *network_items(own.network, services, usage),
        *storage_items(_KEYS, usage.weights_gb, usage),
        *record_items(settings, own.network, usage),
        *watch_items(settings, endpoint_watched(own), machines * assumptions.hours_per_day / 24, usage),
        *([_WAKE] if wakes else []),
    ]


def endpoint_machines(own: EndpointStackSettings, assumptions: Assumptions) -> int:
    """Instances that run: those asked for, or the fewest; one where the endpoint sleeps between requests."""
    if own.endpoint.mode == "serverless":
        return 0
    return assumptions.machines or max(own.endpoint.fewest_instances, 1)


def endpoint_watched(own: EndpointStackSettings) -> Watched:
    """What the stack gives its alarms to watch, under a name of no meaning."""
    endpoint, instance = own.endpoint, instance_of(own.endpoint)
    return Watched(
        runtime_metrics=endpoint.image.container == "eagle3",
        always_on=endpoint.mode != "serverless" and endpoint.fewest_instances > 0,
        depth=own.deployment.speculation.depth,
        gpu_memory_mib=instance.gpus * instance.gpu_memory_mib if instance and instance.gpus else None,
        endpoint_name="endpoint",
        asynchronous=endpoint.mode == "async",
    )


def _compute(own: EndpointStackSettings, assumptions: Assumptions, machines: int) -> list[Item]:
    endpoint, instance = own.endpoint, instance_of(own.endpoint)
    if instance is None:
        return [
            Item(
                group="compute",
                name=f"serverless containers, {endpoint.serverless.memory_mb} MB",
                price="sagemaker-serverless",
                quantity=None,
                counted="by the millisecond of use",
            )
        ]
    items = [
        Item(
            group="compute",
            name=f"endpoint: {instance.name}",
            price=instance.name,
            quantity=machines,
            counted=f"of {endpoint.fewest_instances} to {endpoint.most_instances}",
            purchase=assumptions.on_demand,
            scheduled=True,
            main=True,
        )
    ]
    if not instance.has_local_disk:
        size = endpoint.volume_gb
        items.append(
            Item(
                group="compute",
                name="endpoint: volumes",
                price="sagemaker-volume",
                quantity=None if size is None else machines * size,
                counted="the size is SageMaker's choice" if size is None else f"{machines} x {size} GB",
            )
        )
    return items

"""What the stack large is billed for: control plane, nodes, GPU pools, builds, and the public edge."""

from __future__ import annotations

from datetime import date

from infra.catalogue.eks_calendar import days_left
from infra.catalogue.gpu_instances import gpu_instance
from infra.catalogue.interface_services import cluster_services
from infra.estimate.assumptions import Assumptions, Usage
from infra.estimate.book import Book
from infra.estimate.common_items import network_items, record_items, storage_items, watch_items
from infra.estimate.item import Item
from infra.estimate.machines import pool_items
from infra.observability.watched import Watched
from infra.settings.large_checks import check_large, zones_with_gpus
from infra.settings.root import ClusterStackSettings, Settings
from infra.settings.zones import stack_zones

_KEYS = 5  # data, logs, secrets, volumes, notifications
_EDGE_KEYS = 1  # of the firewall's log, in us-east-1
FIREWALL_RULES = 5


def cluster_items(settings: Settings, assumptions: Assumptions, book: Book, today: date) -> list[Item]:
    """Every item; ConfigError for settings that the stack refuses."""
    own, region, usage = settings.large, settings.region, assumptions.usage
    zones = stack_zones(own.network, region, preferred=zones_with_gpus(own, region))
    check_large(own, region=region, zones=zones, today=today)
    pools = [
        item
        for pool in own.pools
        for item in pool_items(
            pool,
            region=region,
            budget_usd=own.budget.monthly_usd,
            gpus_of_replica=own.deployment.engine.tensor_parallel,
            book=book,
            assumptions=assumptions,
        )
    ]
    machines = sum(item.quantity or 0 for item in pools if item.main) * assumptions.hours_per_day / 24
    weights = own.workload.weights_gib or usage.weights_gb
    return [
        *(item for item in pools if item.group == "compute"),
        *_control(own, assumptions, today),
        *network_items(own.network, cluster_services(edge=own.edge.enabled), usage),
        Item(
            group="network",
            name="data between zones",
            price="cross-zone-data",
            quantity=usage.cross_zone_gb,
            counted="assumed",
        ),
        *storage_items(_KEYS + (_EDGE_KEYS if own.edge.enabled else 0), weights, usage),
        *(item for item in pools if item.group == "observability"),
        *record_items(settings, own.network, usage),
        *watch_items(settings, cluster_watched(own), machines, usage),
        *_logs(own, machines, usage),
        *(_edge(usage) if own.edge.enabled else []),
    ]


def cluster_watched(own: ClusterStackSettings) -> Watched:
    """What the stack gives its alarms to watch, under names of no meaning."""
    memory = min(gpu_instance(name).gpu_memory_mib for pool in own.pools for name in pool.instance_types)
    return Watched(
        runtime_metrics=own.cluster.cloudwatch_agent.enabled,
        depth=own.deployment.speculation.depth,
        gpu_memory_mib=memory,
        cluster_name="cluster",
        spot_rule_name="rule",
        interruption_queue_name="queue",
        bootstrap_project_name="project",
        load_balancer_suffix="app/name/id" if own.edge.enabled else None,
    )


def _control(own: ClusterStackSettings, assumptions: Assumptions, today: date) -> list[Item]:
    """Control plane, system nodes, builds and Karpenter's queue."""
    nodes, count, usage = own.cluster.system_nodes, own.cluster.system_nodes.min_nodes, assumptions.usage
    version = own.cluster.kubernetes_version
    late = days_left(version, today) <= 0
    return [
        Item(
            group="compute",
            name="EKS control plane" + (", extended support" if late else ""),
            price="eks-cluster-extended-support" if late else "eks-cluster",
            quantity=1,
            counted=f"version {version}",
        ),
        Item(
            group="compute",
            name=f"system nodes: {nodes.instance_types[0]}",
            price=nodes.instance_types[0],
            quantity=count,
            counted=f"of {nodes.min_nodes} to {nodes.max_nodes}",
            purchase=assumptions.on_demand,
        ),
        Item(
            group="compute",
            name="system nodes: disks (gp3)",
            price="ebs-gp3",
            quantity=count * nodes.disk_gib,
            counted=f"{count} x {nodes.disk_gib} GiB",
        ),
        Item(
            group="compute",
            name="builds (CodeBuild)",
            price="codebuild-small",
            quantity=usage.build_minutes,
            counted="assumed",
        ),
        Item(
            group="compute",
            name="interruption queue (SQS)",
            price="sqs-requests",
            quantity=usage.queue_requests / 1_000_000,
            counted="assumed",
        ),
        Item(
            group="observability",
            name="system nodes: detailed monitoring",
            price="cloudwatch-metric",
            quantity=7 * count,
            counted=f"7 metrics x {count} nodes",
        ),
    ]


def _logs(own: ClusterStackSettings, machines: float, usage: Usage) -> list[Item]:
    """Log groups of the class Infrequent Access, and what the agent adds where it is asked to."""
    agent = own.cluster.cloudwatch_agent
    gb = usage.record_gb + (machines * usage.log_gb_per_machine if agent.container_logs else 0)
    items = [
        Item(
            group="observability",
            name="control plane's and builds' logs" + (", containers'" if agent.container_logs else ""),
            price="log-ingestion-infrequent",
            quantity=gb,
            counted="assumed",
        )
    ]
    if agent.container_insights:
        items.append(
            Item(
                group="observability",
                name="Container Insights",
                price="container-insights-observations",
                quantity=None,
                counted="by the observation",
            )
        )
    return items


def _edge(usage: Usage) -> list[Item]:
    def item(name: str, price: str, quantity: float, counted: str) -> Item:
        return Item(group="edge", name=name, price=price, quantity=quantity, counted=counted)

    return [
        item("load balancer", "load-balancer", 1, "one"),
        item("load balancer's capacity", "load-balancer-capacity", usage.edge_capacity_units, "units, assumed"),
        item("CloudFront, answers", "cloudfront-data", usage.answers_gb, "assumed"),
        item("CloudFront, requests", "cloudfront-requests", usage.requests / 10_000, "assumed"),
        item("firewall (WAF)", "firewall", 1, "one"),
        item("firewall's rules", "firewall-rule", FIREWALL_RULES, "rate limit and managed rules"),
        item("firewall, requests", "firewall-requests", usage.requests / 1_000_000, "assumed"),
    ]

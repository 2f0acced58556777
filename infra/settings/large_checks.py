"""Checks of the large stack across its sections, and the zones that suit its GPU pools."""

from __future__ import annotations

from datetime import date

from eagle3.errors import ConfigError
from infra.catalogue.gpu_instances import gpu_instance, offered_zones
from infra.settings.cluster import check_cluster
from infra.settings.components import check_components
from infra.settings.edge import check_edge
from infra.settings.pools import check_pools
from infra.settings.root import ClusterStackSettings


def check_large(own: ClusterStackSettings, *, region: str, zones: tuple[str, ...], today: date) -> str | None:
    """Raise ConfigError for settings that do not go together; returns a notice to print, or None."""
    notice = check_cluster(own.cluster, karpenter_version=own.components.karpenter.version, today=today)
    check_components(own.components, kubernetes_version=own.cluster.kubernetes_version, has_edge=own.edge.enabled)
    check_pools(own.pools, region=region, zones=zones)
    check_edge(own.edge, region=region, has_internet_gateway=own.network.nat != "none")
    most = max(gpu_instance(name).gpus for pool in own.pools for name in pool.instance_types)
    if own.deployment.engine.tensor_parallel > most:
        raise ConfigError(
            f"large.deployment.engine.tensor_parallel must be at most {most}, the GPUs of the largest instance of the "
            f"pools; got {own.deployment.engine.tensor_parallel}; lower it or add larger instances"
        )
    archive = own.workload.chart_archive
    if archive is not None and not archive.is_file():
        raise ConfigError(
            f"large.workload.chart_archive must be a packaged chart; got {str(archive)!r}, which is no file; "
            "`make release` writes dist/eagle3-VERSION.tgz"
        )
    return notice


def zones_with_gpus(own: ClusterStackSettings, region: str) -> tuple[str, ...]:
    """Zones that offer an instance type of the pools."""
    return tuple(zone for pool in own.pools for name in pool.instance_types for zone in offered_zones(name, region))

"""Which availability zones a stack spans. Plain data in, names out."""

from __future__ import annotations

from collections.abc import Iterable

from eagle3.errors import ConfigError
from infra.catalogue.regions import zones
from infra.settings.network import NetworkSettings, check_zones


def stack_zones(network: NetworkSettings, region: str, preferred: Iterable[str] = ()) -> tuple[str, ...]:
    """The zones that the settings name, or as many as they ask for: first those preferred, such as zones with GPUs."""
    if network.zones is not None:
        check_zones(network, region)
        return network.zones
    there = zones(region)
    if network.zone_count > len(there):
        raise ConfigError(
            f"network.zone_count must be at most {len(there)} in {region} ({', '.join(there)}); got "
            f"{network.zone_count}"
        )
    first = [zone for zone in there if zone in set(preferred)]
    chosen = (first + [zone for zone in there if zone not in first])[: network.zone_count]
    return tuple(sorted(chosen))

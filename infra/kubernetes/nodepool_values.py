"""Values of the chart eagle3-nodepools from the stack large's settings: `python -m infra.kubernetes.nodepool_values`.

Knows settings, zones and prices; ids of an account's network and keys are the caller's. Invariant: the chart given
these values renders the manifests that the stack applies, so a pool is described once, in the settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from eagle3.errors import Eagle3Error
from infra.catalogue.gpu_instances import offered_zones
from infra.kubernetes.karpenter import NodeIdentity
from infra.kubernetes.pool_limits import PoolLimits, pool_limits
from infra.settings.load import load_settings
from infra.settings.pools import PoolSettings, check_pools, pool_zones
from infra.settings.root import Settings
from infra.settings.zones import stack_zones

# What follows from prices and zones is given as limits and zones: the chart has no tables of either.
_RESOLVED = frozenset({"budget_share", "max_nodes", "zones_confirmed", "one_zone"})
_ABSENT = frozenset({"narrow_reason"})


def pool_values(
    pool: PoolSettings, *, limits: PoolLimits, zones: Sequence[str], subnet_ids: Sequence[str] = ()
) -> dict[str, Any]:
    """One item of the chart's `pools`. `subnet_ids`: none where the chart's own are meant."""
    dumped = pool.model_dump(mode="json", exclude=set(_RESOLVED))
    values = {key: value for key, value in dumped.items() if not (key in _ABSENT and value is None)}
    values |= {"zones": list(zones), "limits": {"gpus": limits.gpus, "vcpus": limits.vcpus}}
    return values | ({"subnet_ids": list(subnet_ids)} if subnet_ids else {})


def chart_values(
    pools: Sequence[Mapping[str, Any]],
    *,
    identity: NodeIdentity,
    subnet_ids: Sequence[str],
    security_group_ids: Sequence[str],
    kms_key_arn: str,
    tags: Mapping[str, str],
) -> dict[str, Any]:
    """The chart's values from pools as `pool_values` makes them."""
    return {
        "pools": [dict(pool) for pool in pools],
        "role": identity.role or "",
        "instanceProfile": identity.instance_profile or "",
        "subnetIds": list(subnet_ids),
        "securityGroupIds": list(security_group_ids),
        "kmsKeyArn": kms_key_arn,
        "tags": dict(tags),
    }


def settings_pools(settings: Settings) -> list[dict[str, Any]]:
    """The pools of the stack large as the chart takes them; ConfigError where one cannot launch."""
    own = settings.large
    region = settings.region
    offering = {zone for pool in own.pools for name in pool.instance_types for zone in offered_zones(name, region)}
    zones = stack_zones(own.network, region, offering)
    check_pools(own.pools, region=region, zones=zones)
    return [
        pool_values(
            pool,
            limits=pool_limits(pool, region=region, budget_usd=own.budget.monthly_usd),
            zones=pool_zones(pool, region=region, zones=zones),
        )
        for pool in own.pools
    ]


def main(environ: Mapping[str, str]) -> int:
    """Print values with the pools of an environment (EAGLE3KIT_ENVIRONMENT, EAGLE3KIT_SET)."""
    try:
        settings = load_settings(environ.get("EAGLE3KIT_ENVIRONMENT", "dev"), environ.get("EAGLE3KIT_SET", ""))
        pools = settings_pools(settings)
    except Eagle3Error as error:
        print(f"eagle3-kit: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    sys.stdout.write("# Add role or instanceProfile, subnetIds and securityGroupIds of the cluster.\n")
    sys.stdout.write(yaml.safe_dump({"pools": pools}, sort_keys=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))

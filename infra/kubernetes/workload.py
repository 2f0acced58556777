"""Values of the chart eagle3 in the large stack, beside config and image: scaling, weights, drain.

Pure functions. Invariant: replicas never need more GPUs than the pools' budget has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagle3.config.deployment import DeploymentConfig
from eagle3.errors import ConfigError
from infra.kubernetes.pool_limits import PoolLimits
from infra.settings.pools import PoolSettings
from infra.settings.weights import mounted
from infra.settings.workload import WorkloadSettings

WEIGHTS_FOLDER = "/models"
"""Where a pod finds the weights: the chart's modelCache.mountPath."""


def gpus_per_replica(deployment: DeploymentConfig) -> int:
    """GPUs of one pod."""
    return deployment.engine.tensor_parallel if deployment.device.startswith("cuda") else 0


def mounted_deployment(deployment: DeploymentConfig, workload: WorkloadSettings) -> DeploymentConfig:
    """The deployment config with target and draft where a pod finds them."""
    if workload.weights_prefix is None:
        return deployment
    place = {"folder": WEIGHTS_FOLDER, "source": "large.workload", "prefix": "large.workload.weights_prefix"}
    changes = {"target": mounted(deployment.target, "target", **place)}
    if deployment.draft is not None:
        changes["draft"] = mounted(deployment.draft, "draft", **place)
    return deployment.model_copy(update=changes)


def replica_limit(workload: WorkloadSettings, deployment: DeploymentConfig, limits: Sequence[PoolLimits]) -> int:
    """Replicas at most; ConfigError where the settings ask for more GPUs than the budget has."""
    each, gpus = gpus_per_replica(deployment), sum(limit.gpus for limit in limits)
    room = gpus // each if each else None
    if room is None:
        return workload.max_replicas or workload.min_replicas
    wanted = max(workload.min_replicas, workload.max_replicas or 1)
    if wanted > room:
        raise ConfigError(
            f"large.workload asks for {wanted} replicas of {each} GPUs; the pools' budget has {gpus} GPUs, for "
            f"{room}; raise large.budget.monthly_usd or lower the replicas"
        )
    return workload.max_replicas or room


def workload_values(
    workload: WorkloadSettings,
    deployment: DeploymentConfig,
    *,
    pools: Sequence[PoolSettings],
    limits: Sequence[PoolLimits],
    region: str,
    model_bucket: str,
    has_keda: bool,
) -> dict[str, Any]:
    """Values of the chart besides those of `helm_values`."""
    values: dict[str, Any] = {
        "model": {"weightsGiB": workload.weights_gib, "cacheGiB": workload.cache_gib},
        "drain": {"spot": any("spot" in pool.capacity_types for pool in pools)},
        "replicas": workload.min_replicas,
    }
    gpus = gpus_per_replica(deployment)
    if gpus:
        values["gpus"] = {"count": gpus}
    if workload.weights_prefix is not None:
        values["modelCache"] = {
            "kind": "ephemeral",
            "mountPath": WEIGHTS_FOLDER,
            "source": f"s3://{model_bucket}/{workload.weights_prefix}",
            "region": region,
        }
    if has_keda:
        # KEDA asks the pods themselves: the cluster need have no Prometheus.
        values["autoscaling"] = {
            "kind": "keda",
            "trigger": "metrics-api",
            "minReplicas": workload.min_replicas,
            "maxReplicas": replica_limit(workload, deployment, limits),
            "coldStartSeconds": workload.cold_start_s,
        }
    return values

"""Values of the Helm releases, made from the settings and from what Terraform knows.

Pure functions; ids and names may be tokens of the framework. Field names are those of the charts' versions in
`ComponentSettings`. Invariants: every image comes from the private registry; whatever runs on GPU nodes tolerates every
taint of every pool; the kit's own chart gets the deployment config as it is, with nothing typed a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from eagle3.config.deployment import DeploymentConfig
from eagle3.errors import ConfigError
from infra.kubernetes.components import COPY_IMAGE, Component, MirroredImage, components
from infra.kubernetes.karpenter import GPU_LABEL
from infra.settings.components import ComponentSettings
from infra.settings.pools import PoolSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterFacts:
    """What the releases must be told about the cluster."""

    cluster_name: str
    """Name of the cluster."""
    region: str
    """Its region."""
    vpc_id: str
    """Its VPC."""
    isolated: bool
    """Whether nothing leaves the VPC (no NAT)."""
    interruption_queue: str
    """NAME of the queue, not its address or ARN."""
    karpenter_service_account: str
    """The service account that has the controller's rights by Pod Identity."""
    zonal_shift: bool = False
    """Whether the cluster takes part in zonal shifts."""
    emf_endpoint: str | None = None
    """Where pods send metrics for CloudWatch; null: nowhere."""
    emf_log_group: str | None = None
    """Log group that these metrics are kept in; null: the runtime's own choice."""
    load_balancer_service_account: str = "aws-load-balancer-controller"
    """The service account that may register pods with load balancers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeImage:
    """The image that serves."""

    repository: str
    """Without tag or digest."""
    tag: str | None = None
    """A tag that keeps its meaning; never "latest"."""
    digest: str | None = None
    """"sha256:…"; wins over the tag."""

    def __post_init__(self) -> None:
        if self.tag is None and self.digest is None:
            raise ConfigError(f"the image {self.repository} has neither tag nor digest; give one of them")
        if self.tag == "latest" and self.digest is None:
            raise ConfigError(
                f"the image {self.repository} has the tag 'latest', which means something else every day; give the "
                "tag of a release or a digest"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeRelease:
    """What the kit's own chart is given."""

    deployment: DeploymentConfig
    """The one deployment config."""
    image: RuntimeImage
    """What runs."""
    more: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Further values of the chart."""


def helm_values(
    settings: ComponentSettings,
    *,
    facts: ClusterFacts,
    pools: Sequence[PoolSettings],
    repositories: Mapping[str, str],
    runtime: RuntimeRelease | None,
) -> dict[str, dict[str, Any]]:
    """Values of every release that is installed, by its name.

    `repositories`: private name to address. `runtime`: null where the kit's own chart is not installed by the stack.
    """
    made: dict[str, dict[str, Any]] = {}
    for component in components(settings):
        if not component.chart.enabled or (component.source is None and runtime is None):
            continue
        images = {image.repository: (image, repositories[image.repository]) for image in component.images}
        match component.release:
            case "karpenter-crd":
                values: dict[str, Any] = {}
            case "karpenter":
                values = _karpenter(facts, *images["karpenter/controller"])
            case "nvidia-device-plugin":
                values = _device_plugin(pools, *images["nvidia/k8s-device-plugin"])
            case "dcgm-exporter":
                values = _dcgm_exporter(pools, *images["nvidia/dcgm-exporter"])
            case "keda":
                values = _keda(facts, component, repositories)
            case "aws-load-balancer-controller":
                values = _load_balancer_controller(facts, *images["eks/aws-load-balancer-controller"])
            case "eagle3":
                assert runtime is not None, "skipped above"
                values = _eagle3(facts, pools, runtime, *images[COPY_IMAGE.repository])
            case name:
                raise AssertionError(f"no values are known for the release {name}")
        made[component.release] = values
    return made


def gpu_tolerations(pools: Sequence[PoolSettings]) -> list[dict[str, str]]:
    """Tolerations for every taint of every pool, each once."""
    taints = dict.fromkeys((taint.key, taint.value, taint.effect) for pool in pools for taint in pool.taints)
    return [{"key": key, "operator": "Equal", "value": value, "effect": effect} for key, value, effect in taints]


def runtime_config(deployment: DeploymentConfig, facts: ClusterFacts) -> DeploymentConfig:
    """The deployment config as it runs in a pod: reachable from outside, its metrics sent under the cluster's name."""
    serving = deployment.serving.model_copy(update={"host": "0.0.0.0"})  # noqa: S104 (a pod's own address)
    changes: dict[str, Any] = {"dimensions": {**deployment.metrics.dimensions, "ClusterName": facts.cluster_name}}
    if facts.emf_endpoint is not None:
        changes |= {"emf": "agent", "agent_endpoint": facts.emf_endpoint, "log_group": facts.emf_log_group}
    metrics = deployment.metrics.model_copy(update=changes)
    return deployment.model_copy(update={"serving": serving, "metrics": metrics})


def _karpenter(facts: ClusterFacts, image: MirroredImage, url: str) -> dict[str, Any]:
    # digest: "" means none; leaving it out would keep the chart's own.
    return {
        "serviceAccount": {"create": True, "name": facts.karpenter_service_account},
        "controller": {
            "image": {"repository": url, "tag": image.tag, "digest": image.digest or ""},
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        },
        "logLevel": "info",
        "settings": {
            "clusterName": facts.cluster_name,
            "interruptionQueue": facts.interruption_queue,
            "isolatedVPC": facts.isolated,
            "eksControlPlane": True,
            "enableZonalShift": facts.zonal_shift,
        },
    }


def _device_plugin(pools: Sequence[PoolSettings], image: MirroredImage, url: str) -> dict[str, Any]:
    # The chart's own affinity takes nodes with this label; the node selector says it where it can be seen.
    return {
        "image": {"repository": url, "tag": image.tag},
        "nodeSelector": {GPU_LABEL: "true"},
        "tolerations": gpu_tolerations(pools),
    }


def _dcgm_exporter(pools: Sequence[PoolSettings], image: MirroredImage, url: str) -> dict[str, Any]:
    return {
        "image": {"repository": url, "tag": image.tag},
        "nodeSelector": {GPU_LABEL: "true"},
        "tolerations": gpu_tolerations(pools),
        # The chart asks for the Prometheus operator's CRDs by default, which this cluster need not have.
        "serviceMonitor": {"enabled": False},
    }


def _keda(facts: ClusterFacts, component: Component, repositories: Mapping[str, str]) -> dict[str, Any]:
    parts = {
        "keda": "kedacore/keda",
        "metricsApiServer": "kedacore/keda-metrics-apiserver",
        "webhooks": "kedacore/keda-admission-webhooks",
    }
    tags = {image.repository: image.tag for image in component.images}
    images = {
        # The address has the registry in it; the chart puts one before it only where there is one.
        part: {"registry": "", "repository": repositories[name], "tag": tags[name]}
        for part, name in parts.items()
    }
    return {
        "clusterName": facts.cluster_name,
        "crds": {"install": True},
        "image": {**images, "pullPolicy": "IfNotPresent"},
        # A second one takes over while the first is moved; one alone leads.
        "operator": {"replicaCount": 2},
    }


def _load_balancer_controller(facts: ClusterFacts, image: MirroredImage, url: str) -> dict[str, Any]:
    return {
        "clusterName": facts.cluster_name,
        "region": facts.region,
        "vpcId": facts.vpc_id,
        "image": {"repository": url, "tag": image.tag},
        "serviceAccount": {"create": True, "name": facts.load_balancer_service_account},
        # Their APIs have no VPC endpoint; firewall and protection belong to the edge.
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
    }


def _eagle3(
    facts: ClusterFacts, pools: Sequence[PoolSettings], runtime: RuntimeRelease, copier: MirroredImage, url: str
) -> dict[str, Any]:
    image = {"repository": runtime.image.repository}
    if runtime.image.tag is not None:
        image["tag"] = runtime.image.tag
    if runtime.image.digest is not None:
        image["digest"] = runtime.image.digest
    return {
        **runtime.more,
        "modelCache": {**runtime.more.get("modelCache", {}), "copy": {"image": f"{url}:{copier.tag}"}},
        "config": runtime_config(runtime.deployment, facts).model_dump(mode="json"),
        "image": image,
        "nodeSelector": {GPU_LABEL: "true"},
        "tolerations": gpu_tolerations(pools),
    }

"""Settings of what is installed into the cluster, and of the tools that install it.

Knows no chart's values. Invariant: every version is pinned, so that two bootstraps of one commit install the same;
tools are pinned by content as well.
"""

from __future__ import annotations

import re

from pydantic import Field

from eagle3.errors import ConfigError
from infra.settings.section import Section

_VERSION = r"^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$"
_SHA256 = r"^[0-9a-f]{64}$"
_DIGEST = r"^sha256:[0-9a-f]{64}$"


class Chart(Section):
    """One Helm chart."""

    version: str = Field(pattern=_VERSION, description="version of the chart, never a range or 'latest'")
    sha256: str | None = Field(
        default=None, pattern=_SHA256, description="SHA-256 of the chart's archive; null: what the mirror first gets"
    )
    enabled: bool = Field(default=True, description="whether it is installed; switched off, it is removed")
    timeout_s: int = Field(default=600, ge=60, le=3600, description="seconds until it must be ready, or is rolled back")


class KarpenterChart(Chart):
    """Karpenter, without which there are no GPU nodes."""

    version: str = Field(default="1.14.1", pattern=_VERSION, description="version of Karpenter and its charts")
    image_digest: str | None = Field(
        default="sha256:723130949e4cab989461ff07d1be4cd781d63515432494641b33c235f300ae23",
        pattern=_DIGEST,
        description="digest of the controller's image of that version; null: by tag",
    )


class Tool(Section):
    """One program of the bootstrap, for linux-amd64."""

    version: str = Field(pattern=_VERSION, description="version of the program")
    sha256: str = Field(pattern=_SHA256, description="SHA-256 of the file that is downloaded")


class ToolSettings(Section):
    """Programs that mirror and install; each is checked against its SHA-256 before it runs."""

    helm: Tool = Field(
        default=Tool(version="3.20.0", sha256="dbb4c8fc8e19d159d1a63dda8db655f9ffa4aac1b9a6b188b34a40957119b286"),
        description="Helm's archive",
    )
    kubectl: Tool = Field(
        default=Tool(version="1.35.8", sha256="874d5e72dbb819f43cff16bcd1e4f8bac5b7f2361fe1e55049b0a6c676fb0cbf"),
        description="kubectl, within one minor version of the cluster's",
    )
    crane: Tool = Field(
        default=Tool(version="0.21.9", sha256="5c16d8ddb971cb1d5e6ed8b1e743da8224414eeba2c2762d8f1a61b2f095699e"),
        description="the archive of crane, which copies images without a daemon",
    )


class ComponentSettings(Section):
    """What the bootstrap installs, in the order of its fields."""

    karpenter: KarpenterChart = Field(default_factory=KarpenterChart, description="launches GPU nodes")
    device_plugin: Chart = Field(
        default=Chart(version="0.20.0"), description="NVIDIA device plugin, which lets pods ask for GPUs"
    )
    dcgm_exporter: Chart = Field(default=Chart(version="4.8.2"), description="NVIDIA DCGM exporter: metrics of GPUs")
    dcgm_exporter_image: str = Field(
        default="4.5.3-4.8.2-distroless",
        pattern=r"^\d+\.\d+\.\d+-\d+\.\d+\.\d+(-[a-z0-9.]+)?$",
        description="tag of the exporter's image (DCGM's version, then the exporter's)",
    )
    keda: Chart = Field(default=Chart(version="2.21.0"), description="KEDA, which scales on the queue's depth")
    load_balancer_controller: Chart = Field(
        default=Chart(version="3.5.0", enabled=False),
        description="AWS Load Balancer Controller; needed only with an edge in front of the cluster",
    )
    eagle3: Chart = Field(
        default=Chart(version="0.1.0", timeout_s=1800), description="the kit's own chart; its time covers loading"
    )
    tools: ToolSettings = Field(default_factory=ToolSettings, description="programs of the bootstrap")


def check_components(components: ComponentSettings, *, kubernetes_version: str, has_edge: bool) -> None:
    """Whether the components go together; call it when the cluster's version and the edge are known.

    Karpenter's own release is checked against the cluster's by `check_cluster`.
    """
    if not components.karpenter.enabled:
        raise ConfigError("components.karpenter cannot be off: it launches the GPU nodes; remove the setting")
    if not components.device_plugin.enabled:
        raise ConfigError(
            "components.device_plugin cannot be off: without it no pod is given a GPU and no GPU node counts as "
            "ready; remove the setting"
        )
    cluster, client = _minor(kubernetes_version), _minor(components.tools.kubectl.version)
    if cluster[0] != client[0] or abs(cluster[1] - client[1]) > 1:
        raise ConfigError(
            f"kubectl must be within one minor version of the cluster's {kubernetes_version}; "
            f"components.tools.kubectl.version is {components.tools.kubectl.version}; change it and its sha256"
        )
    if has_edge and not components.load_balancer_controller.enabled:
        raise ConfigError(
            "an edge in front of the cluster needs components.load_balancer_controller.enabled: true, which keeps the "
            "load balancer's targets; got false"
        )


def _minor(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise ConfigError(f"a version starts with two numbers, such as 1.35; got {version!r}")
    return int(found[1]), int(found[2])

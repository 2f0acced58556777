"""What the cluster's components consist of: charts and where they come from, images and what they are called here.

Knows no values and no framework. Invariant: every image that an enabled chart's values name is in the list, since a
node without internet can pull from the private registry alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from infra.settings.components import Chart, ComponentSettings

KUBE_SYSTEM = "kube-system"


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartSource:
    """Where a chart comes from."""

    name: str
    """Name of the chart."""
    location: str
    """An OCI reference ("oci://…") or the address of a chart repository."""

    @property
    def is_oci(self) -> bool:
        """Whether `location` is the chart's own reference in an OCI registry."""
        return self.location.startswith("oci://")


@dataclass(frozen=True, kw_only=True, slots=True)
class MirroredImage:
    """An image that is copied into the private registry."""

    source: str
    """Where it is published, without a tag."""
    repository: str
    """Its name in the private registry."""
    tag: str
    """Tag on both sides."""
    digest: str | None = None
    """What the tag must be, where it is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One Helm release."""

    release: str
    """Name of the release, and of its values file."""
    namespace: str
    """Namespace that it lives in."""
    chart: Chart
    """Version and switches."""
    source: ChartSource | None
    """Null: the archive is uploaded with the stack (the kit's own chart)."""
    images: tuple[MirroredImage, ...] = ()
    """Images that its pods run."""
    skip_crds: bool = False
    """Whether another release brings its CRDs."""

    @property
    def archive(self) -> str:
        """File name of the chart's archive."""
        name = self.release if self.source is None else self.source.name
        return f"{name}-{self.chart.version}.tgz"


COPY_IMAGE = MirroredImage(source="public.ecr.aws/aws-cli/aws-cli", repository="aws-cli/aws-cli", tag="2.36.44")
"""What copies weights from the bucket to a node's disk: the chart's modelCache.copy.image."""


def components(settings: ComponentSettings) -> tuple[Component, ...]:
    """Every component in the order of installation, those that are switched off among them."""
    return tuple(build(settings) for build in _ORDER)


def mirrored_images(settings: ComponentSettings) -> tuple[MirroredImage, ...]:
    """Images of the components that are switched on."""
    return tuple(image for component in components(settings) if component.chart.enabled for image in component.images)


def mirrored_repositories(settings: ComponentSettings) -> tuple[str, ...]:
    """Names of the private repositories that the mirror pushes to, each once."""
    return tuple(dict.fromkeys(image.repository for image in mirrored_images(settings)))


def _karpenter_crd(settings: ComponentSettings) -> Component:
    # The archive differs from the controller chart's, so a pinned digest of that one does not apply.
    chart = settings.karpenter.model_copy(update={"sha256": None})
    return Component(
        release="karpenter-crd",
        namespace=KUBE_SYSTEM,
        chart=chart,
        source=ChartSource(name="karpenter-crd", location="oci://public.ecr.aws/karpenter/karpenter-crd"),
    )


def _karpenter(settings: ComponentSettings) -> Component:
    return Component(
        release="karpenter",
        namespace=KUBE_SYSTEM,
        chart=settings.karpenter,
        source=ChartSource(name="karpenter", location="oci://public.ecr.aws/karpenter/karpenter"),
        images=(
            MirroredImage(
                source="public.ecr.aws/karpenter/controller",
                repository="karpenter/controller",
                tag=settings.karpenter.version,
                digest=settings.karpenter.image_digest,
            ),
        ),
        skip_crds=True,
    )


def _device_plugin(settings: ComponentSettings) -> Component:
    return Component(
        release="nvidia-device-plugin",
        namespace=KUBE_SYSTEM,
        chart=settings.device_plugin,
        source=ChartSource(name="nvidia-device-plugin", location="https://nvidia.github.io/k8s-device-plugin"),
        images=(
            MirroredImage(
                source="nvcr.io/nvidia/k8s-device-plugin",
                repository="nvidia/k8s-device-plugin",
                tag=f"v{settings.device_plugin.version}",
            ),
        ),
    )


def _dcgm_exporter(settings: ComponentSettings) -> Component:
    return Component(
        release="dcgm-exporter",
        namespace="gpu-metrics",
        chart=settings.dcgm_exporter,
        source=ChartSource(name="dcgm-exporter", location="https://nvidia.github.io/dcgm-exporter/helm-charts"),
        images=(
            MirroredImage(
                source="nvcr.io/nvidia/k8s/dcgm-exporter",
                repository="nvidia/dcgm-exporter",
                tag=settings.dcgm_exporter_image,
            ),
        ),
    )


def _keda(settings: ComponentSettings) -> Component:
    names = ("keda", "keda-metrics-apiserver", "keda-admission-webhooks")
    return Component(
        release="keda",
        namespace="keda",
        chart=settings.keda,
        source=ChartSource(name="keda", location="https://kedacore.github.io/charts"),
        images=tuple(
            MirroredImage(source=f"ghcr.io/kedacore/{name}", repository=f"kedacore/{name}", tag=settings.keda.version)
            for name in names
        ),
    )


def _load_balancer_controller(settings: ComponentSettings) -> Component:
    return Component(
        release="aws-load-balancer-controller",
        namespace=KUBE_SYSTEM,
        chart=settings.load_balancer_controller,
        source=ChartSource(name="aws-load-balancer-controller", location="https://aws.github.io/eks-charts"),
        images=(
            MirroredImage(
                source="public.ecr.aws/eks/aws-load-balancer-controller",
                repository="eks/aws-load-balancer-controller",
                tag=f"v{settings.load_balancer_controller.version}",
            ),
        ),
    )


def _eagle3(settings: ComponentSettings) -> Component:
    return Component(release="eagle3", namespace="eagle3", chart=settings.eagle3, source=None, images=(COPY_IMAGE,))


_ORDER: tuple[Callable[[ComponentSettings], Component], ...] = (
    _karpenter_crd,
    _karpenter,
    _device_plugin,
    _dcgm_exporter,
    _keda,
    _load_balancer_controller,
    _eagle3,
)

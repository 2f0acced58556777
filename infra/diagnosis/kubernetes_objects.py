"""Reads single objects of the Kubernetes API: conditions, times, taints, GPUs, troubles of containers.

Pure functions of the API's JSON; asks nobody. Knows no alarm and no cause. Invariant: a field that is absent is read as
the API's documents say that its absence is meant, so an object of any version can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from kubernetes.utils import parse_quantity

from infra.diagnosis.evidence import Finding

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
# Karpenter's pools carry the first (infra.kubernetes.karpenter), GPU Feature Discovery and Karpenter the others.
_GPU_LABELS = ("nvidia.com/gpu.present", "nvidia.com/gpu.count", "karpenter.k8s.aws/instance-gpu-count")
SOURCE = "Kubernetes"

TroubleKind = Literal[
    "taint", "device-plugin", "limits", "capacity", "account-quota", "addresses", "permission", "unregistered",
    "node-class", "no-fit", "karpenter", "node", "volume", "image", "namespace-quota", "waits", "memory", "crash",
    "create", "unready", "refused", "no-metrics", "paused", "maximum", "budget-blocks", "unbound", "release", "spot",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """Something that is not as it should be."""

    kind: TroubleKind
    finding: Finding
    server: bool = False
    """Whether it concerns pods of the server itself."""


def trouble(
    kind: TroubleKind, item: Object, value: str, *, when: datetime | None = None, server: bool = False
) -> Trouble:
    """A trouble of one object; its text is made one line of at most 300 characters."""
    line = " ".join(value.split())
    line = line if len(line) <= 300 else f"{line[:299]}…"
    return Trouble(kind=kind, finding=Finding(source=SOURCE, what=title(item), value=line, when=when), server=server)


def title(item: Object) -> str:
    """An object as a reader knows it: "Pod eagle3/eagle3-7c9"."""
    metadata = item.get("metadata") or {}
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{item.get('kind', 'object')} {place}{metadata.get('name', '?')}"


def labels_of(item: Object) -> Mapping[str, str]:
    """Labels; none where there are none."""
    found: Mapping[str, str] = (item.get("metadata") or {}).get("labels") or {}
    return found


def condition(item: Object, kind: str) -> Object:
    """The condition of a type; empty where it is not set."""
    conditions: Iterable[Object] = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


def moment(text: str | None) -> datetime | None:
    """A time of the API, which is UTC; None where there is none."""
    return datetime.fromisoformat(text) if text else None


def age_s(text: str | None, now: datetime) -> float:
    """Seconds since a time of the API; 0 where there is none."""
    then = moment(text)
    return max(0.0, (now - then).total_seconds()) if then else 0.0


def created_s(item: Object, now: datetime) -> float:
    """Seconds since an object was made."""
    return age_s((item.get("metadata") or {}).get("creationTimestamp"), now)


def event_time(event: Object) -> datetime | None:
    """When an event happened last: of either API of events."""
    series = event.get("series") or {}
    for text in (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime")):
        if text:
            return moment(text)
    return moment((event.get("metadata") or {}).get("creationTimestamp"))


def about(event: Object) -> Object:
    """The object of an event, as far as the event names it."""
    named = event.get("involvedObject") or {}
    return {"kind": named.get("kind", "object"), "metadata": {"name": named.get("name", "?"), **_place(named)}}


def said(event: Object) -> str:
    """What an event says; "" for nothing."""
    return str(event.get("message") or "")


def _place(named: Object) -> Object:
    return {"namespace": named["namespace"]} if named.get("namespace") else {}


def events_of(item: Object, events: Sequence[Object], *reasons: str) -> list[Object]:
    """Events of an object with one of the reasons, the newest first."""
    metadata = item.get("metadata") or {}
    whose = (item.get("kind"), metadata.get("namespace"), metadata.get("name"))
    found = []
    for event in events:
        named = about(event)
        place = named["metadata"].get("namespace")
        same = (named["kind"], named["metadata"]["name"]) == (whose[0], whose[2]) and whose[1] in (None, place)
        if event.get("reason") in reasons and same:
            found.append(event)
    return sorted(found, key=lambda event: str(event_time(event)), reverse=True)


def amount(text: object) -> Decimal:
    """A quantity such as "8" or "64Gi"; 0 for none."""
    value: Decimal = parse_quantity(text) if text else Decimal(0)
    return value


def gpus_asked(pod: Object) -> Decimal:
    """GPUs that a pod asks for."""
    return sum((amount(_asked(one).get(GPU)) for one in pod["spec"].get("containers") or ()), Decimal(0))


def _asked(container: Object) -> Mapping[str, str]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def is_gpu_node(node: Object) -> bool:
    """Whether a node is one with GPUs, whatever Kubernetes sees of them."""
    labels = labels_of(node)
    return any(labels.get(name, "false") not in ("false", "0") for name in _GPU_LABELS) or gpus_seen(node) > 0


def gpus_seen(node: Object) -> Decimal:
    """GPUs that Kubernetes may give to pods of a node."""
    return amount(((node.get("status") or {}).get("allocatable") or {}).get(GPU))


def selected(pod: Object, labels: Mapping[str, str]) -> bool:
    """Whether a pod's node selector allows a node of these labels."""
    wanted: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def untolerated(pod: Object, taints: Iterable[Object] | None) -> list[str]:
    """The taints that keep a pod away, as "key=value:effect"."""
    return [
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
        for taint in taints or ()
        if taint["effect"] != "PreferNoSchedule"
        and not any(_tolerates(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())
    ]


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value") or "") == (taint["key"], taint.get("value") or "")

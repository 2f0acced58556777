"""Why pods do not run: what they wait for, images, memory, crashes, readiness.

Pure functions of lists of the API; asks nobody, knows no alarm. Invariant: a pod that waits for a node has the trouble
"waits" and at most one that says why; that one is computed from nodes and pools where those were seen, since the
scheduler's message counts the taints of every node, those among them that the pod has no business on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from infra.diagnosis.kubernetes_objects import (
    GPU,
    Object,
    Trouble,
    TroubleKind,
    amount,
    condition,
    created_s,
    event_time,
    events_of,
    gpus_asked,
    is_gpu_node,
    labels_of,
    moment,
    said,
    selected,
    trouble,
    untolerated,
)

_IMAGE = frozenset(
    ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
     "RegistryUnavailable", "SignatureValidationFailed")
)  # fmt: skip
_CREATE = frozenset(("CreateContainerConfigError", "CreateContainerError", "RunContainerError"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What pods are held against; None: not seen."""

    events: Sequence[Object] = ()
    nodes: Sequence[Object] | None = None
    pools: Sequence[Object] | None = None
    since: datetime
    """Ends of containers before this are history."""
    now: datetime


def pod_troubles(pods: Sequence[Object], around: Surroundings, *, namespace: str) -> list[Trouble]:
    """Troubles of pods, in the pods' order. `namespace` is the server's."""
    found: list[Trouble] = []
    for pod in pods:
        if not pod["metadata"].get("deletionTimestamp"):
            found += _troubles(pod, around, is_server(pod, namespace))
    return found


def is_server(pod: Object, namespace: str) -> bool:
    """Whether a pod serves: the chart's components "server" and "canary"; a helper beside them does not."""
    own: bool = pod["metadata"].get("namespace") == namespace
    return own and labels_of(pod).get("app.kubernetes.io/component", "server") in ("server", "canary")


def is_ready(pod: Object) -> bool:
    """Whether a pod takes requests."""
    return condition(pod, "Ready").get("status") == "True"


def waits_for_node(pod: Object) -> bool:
    """Whether the scheduler found no node for it."""
    scheduled = condition(pod, "PodScheduled")
    return pod["status"].get("phase") == "Pending" and scheduled.get("status") == "False"


def _troubles(pod: Object, around: Surroundings, server: bool) -> Iterator[Trouble]:
    status = pod["status"]
    if waits_for_node(pod):
        message = condition(pod, "PodScheduled").get("message", "no message")
        minutes = created_s(pod, around.now) / 60
        yield trouble("waits", pod, f"has waited for a node for {minutes:.0f} min: {message}", server=server)
        if (why := _why_waiting(pod, message, around)) is not None:
            yield trouble(why[0], pod, why[1], server=server)
        return
    if status.get("phase") == "Failed" and status.get("reason") == "Evicted":
        yield trouble("node", pod, f"evicted: {status.get('message', '')}", server=server)
        return
    if status.get("phase") in ("Succeeded", "Failed"):
        return
    troubled = False
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        if (seen := _container(container, around.since)) is not None:
            troubled = True
            yield trouble(
                seen[0], pod, f"container {container.get('name', '?')}: {seen[1]}", when=seen[2], server=server
            )
    for event in events_of(pod, around.events, "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")[:1]:
        if status.get("phase") == "Pending":
            troubled = True
            kind: TroubleKind = "volume" if event["reason"] != "FailedCreatePodSandBox" else "addresses"
            yield trouble(kind, pod, f"{event['reason']}: {said(event)}", when=event_time(event), server=server)
    if status.get("phase") == "Running" and not is_ready(pod) and not troubled:
        yield trouble("unready", pod, _unready(pod, around), server=server)


def _container(status: Object, since: datetime) -> tuple[TroubleKind, str, datetime | None] | None:
    """Trouble of one container, with what the kubelet says of it, and when it ended."""
    waiting = (status.get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE:
        return "image", f"{reason}: {message or status.get('image', '')}", None
    if reason in _CREATE:
        return "create", f"{reason}: {message}", None
    ends = [(status.get(key) or {}).get("terminated") or {} for key in ("state", "lastState")]
    end = next((one for one in ends if one), {})
    ended = moment(end.get("finishedAt"))
    recent = reason == "CrashLoopBackOff" or (ended is not None and ended >= since)
    restarts = f"{status.get('restartCount', 0)} restarts"
    if end and recent and (end.get("exitCode") != 0 or reason == "CrashLoopBackOff"):
        kind: TroubleKind = "memory" if end.get("reason") == "OOMKilled" else "crash"
        last = f"; {end['message']}" if end.get("message") else ""
        return kind, f"{end.get('reason', 'ended')}, exit code {end.get('exitCode')}, {restarts}{last}", ended
    return ("crash", f"{reason}, {restarts}", None) if reason == "CrashLoopBackOff" else None


def _unready(pod: Object, around: Surroundings) -> str:
    events = events_of(pod, around.events, "Unhealthy")
    loading = any(one.get("started") is False for one in pod["status"].get("containerStatuses") or ())
    minutes = created_s(pod, around.now) / 60
    state = "still starts" if loading else "runs but is not ready"
    return f"{state}, {minutes:.0f} min after it was made" + (f"; {said(events[0])}" if events else "")


def _why_waiting(pod: Object, message: str, around: Surroundings) -> tuple[TroubleKind, str] | None:
    """Why no node was found; None: nothing says so, the reason is then with nodes and claims."""
    events = events_of(pod, around.events, "FailedScheduling")
    texts = [message, *map(said, events)]

    def told(*words: str) -> str | None:
        return next((text for text in texts if any(word in text for word in words)), None)

    if text := told("unbound immediate PersistentVolumeClaims", "persistentvolumeclaim", "volume node affinity"):
        return "volume", text
    if (text := _kept_away(pod, around)) is not None:
        return "taint", text
    unseen = around.nodes is None or around.pools is None
    if unseen and (text := told("did not tolerate taint", "untolerated taint")) is not None:
        return "taint", text
    if (text := told("exceed limits for nodepool", "limits have been exhausted for nodepool")) is not None:
        return "limits", text
    if (text := _used_up(pod, around.pools or ())) is not None:
        return "limits", text
    if (text := told("no instance type", "incompatible requirements")) is not None:
        return "no-fit", text
    return None


def _kept_away(pod: Object, around: Surroundings) -> str | None:
    """The taints, if every node and every pool that could take the pod keeps it away by one."""
    asks_gpu = gpus_asked(pod) > 0
    places = [
        (f"node {node['metadata']['name']}", untolerated(pod, node["spec"].get("taints")))
        for node in around.nodes or ()
        if selected(pod, labels_of(node)) and (is_gpu_node(node) or not asks_gpu)
    ]
    for pool in around.pools or ():
        template = pool["spec"]["template"]
        if selected(pod, labels_of(template)) and (_gives_gpus(pool) or not asks_gpu):
            places.append((f"pool {pool['metadata']['name']}", untolerated(pod, template["spec"].get("taints"))))
    if not places or not all(taints for _, taints in places):
        return None
    return "; ".join(f"{place} has {', '.join(taints)}, not tolerated" for place, taints in places[:3])


def _gives_gpus(pool: Object) -> bool:
    template = pool["spec"]["template"]
    limited = GPU in (pool["spec"].get("limits") or {})
    tainted = any(taint.get("key") == GPU for taint in template["spec"].get("taints") or ())
    return limited or tainted or is_gpu_node(template)


def _used_up(pod: Object, pools: Sequence[Object]) -> str | None:
    """The limits, if every pool that could take the pod has less left than it asks for."""
    full: list[str] = []
    able = [pool for pool in pools if _gives_gpus(pool)] if gpus_asked(pod) > 0 else list(pools)
    for pool in able:
        limits, used = pool["spec"].get("limits") or {}, (pool.get("status") or {}).get("resources") or {}
        asked = {GPU: gpus_asked(pod)}
        spent = [
            f"{used.get(name, 0)} of {limit} {name}"
            for name, limit in limits.items()
            if amount(used.get(name)) + asked.get(name, 0) > amount(limit) or amount(used.get(name)) >= amount(limit)
        ]
        if not spent:
            return None
        full.append(f"pool {pool['metadata']['name']} has {', '.join(spent)} in use")
    return "; ".join(full) or None

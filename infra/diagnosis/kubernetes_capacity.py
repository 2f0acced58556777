"""Why there is no node, or no good one: nodes, GPUs that Kubernetes does not see, Karpenter's claims and pools.

Pure functions of lists of the API; asks nobody, knows no alarm. Invariant: what is merely on its way (a claim of less
than five minutes, a node of less than three) is no trouble.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from infra.diagnosis.kubernetes_objects import (
    GPU,
    Object,
    Trouble,
    TroubleKind,
    about,
    age_s,
    condition,
    created_s,
    event_time,
    gpus_seen,
    is_gpu_node,
    labels_of,
    moment,
    said,
    trouble,
)

REGISTER_S = 300.0
"""A claim not registered after this will hardly be; Karpenter itself gives up after 900."""
SETTLE_S = 180.0
"""Time in which a new node becomes ready and its device plugin reports."""
DEVICE_PLUGIN = "nvidia-device-plugin"

# Reasons and messages with which AWS refuses an instance, by what they mean; the first that fits counts, since
# Karpenter calls quotas and subnets a lack of capacity too.
_REFUSALS: tuple[tuple[TroubleKind, re.Pattern[str]], ...] = (
    ("permission", re.compile(r"Unauthorized|AccessDenied|AuthFailure|not authorized|PassRole|SpotSLRCreationFailed")),
    ("account-quota", re.compile(r"V[Cc][Pp][Uu]LimitExceeded|Spot(InstanceCount|Quota)Exceeded|FleetQuotaExceeded"
                                 r"|MaxSpotInstanceCountExceeded|MaxFleetCountExceeded|PendingVerification")),
    ("addresses", re.compile(r"InsufficientFreeAddressesInSubnet|not enough free IP")),
    ("capacity", re.compile(r"Insufficient\w*Capacity|UnfulfillableCapacity|[Ii]nsufficient capacity"
                            r"|ReservationCapacityExceeded")),
)  # fmt: skip


def node_troubles(nodes: Sequence[Object], daemon_sets: Sequence[Object] | None, now: datetime) -> list[Trouble]:
    """Troubles of nodes that have had time to settle."""
    found: list[Trouble] = []
    for node in nodes:
        if created_s(node, now) > SETTLE_S and not node["metadata"].get("deletionTimestamp"):
            found += _node(node, now)
    if daemon_sets is not None and any(one.kind == "device-plugin" for one in found):
        found += _device_plugin(daemon_sets)
    return found


def _node(node: Object, now: datetime) -> Iterator[Trouble]:
    ready = condition(node, "Ready")
    if ready.get("status") != "True":
        minutes = age_s(ready.get("lastTransitionTime"), now) / 60
        yield trouble("node", node, f"not ready for {minutes:.0f} min: {ready.get('message', 'says nothing')}")
        return
    for kind in ("DiskPressure", "MemoryPressure", "PIDPressure"):
        if (pressure := condition(node, kind)).get("status") == "True":
            yield trouble("node", node, f"{kind}: {pressure.get('message', '')}")
    if is_gpu_node(node) and gpus_seen(node) == 0:
        yield trouble("device-plugin", node, f"is a GPU node, and offers 0 {GPU}")


def _device_plugin(daemon_sets: Sequence[Object]) -> Iterator[Trouble]:
    found = [one for one in daemon_sets if DEVICE_PLUGIN in one["metadata"]["name"]]
    if not found:
        absent = {"kind": "DaemonSet", "metadata": {"name": DEVICE_PLUGIN}}
        yield trouble("device-plugin", absent, "there is none in any namespace")
    for one in found:
        status = one.get("status") or {}
        meant, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        yield trouble("device-plugin", one, f"meant for {meant} nodes, ready on {ready}")


def claim_troubles(claims: Sequence[Object], now: datetime) -> list[Trouble]:
    """Troubles of Karpenter's NodeClaims."""
    found: list[Trouble] = []
    for claim in claims:
        if not claim["metadata"].get("deletionTimestamp"):
            found += _claim(claim, now)
    return found


def _claim(claim: Object, now: datetime) -> Iterator[Trouble]:
    launched, registered, initialized = (condition(claim, kind) for kind in ("Launched", "Registered", "Initialized"))
    if launched.get("status") != "True":
        text = f"{launched.get('reason', '')}: {launched.get('message', '')}"
        if (kind := refusal(text)) is not None:
            yield trouble(kind, claim, f"not launched; {text}", when=moment(launched.get("lastTransitionTime")))
        return
    if registered.get("status") != "True":
        since_s = age_s(launched.get("lastTransitionTime"), now)
        if since_s > REGISTER_S:
            value = f"launched {since_s / 60:.0f} min ago, never registered: {registered.get('message', '')}"
            yield trouble("unregistered", claim, value, when=moment(launched.get("lastTransitionTime")))
        return
    if initialized.get("status") == "True" or age_s(registered.get("lastTransitionTime"), now) <= SETTLE_S:
        return
    text = f"{initialized.get('reason', '')}: {initialized.get('message', '')}"
    if initialized.get("reason") == "ResourceNotRegistered" and GPU in text:
        yield trouble("device-plugin", claim, f"registered, not initialized; {text}")
    else:
        yield trouble("node", claim, f"registered, not initialized; {text}")


def refusal(text: str) -> TroubleKind | None:
    """What a refused launch means; None for one that is still tried."""
    return next((kind for kind, words in _REFUSALS if words.search(text)), None)


def pool_troubles(pools: Sequence[Object]) -> list[Trouble]:
    """Troubles of Karpenter's NodePools that outlive the claims, which Karpenter deletes."""
    found: list[Trouble] = []
    for pool in pools:
        healthy = condition(pool, "NodeRegistrationHealthy")
        if healthy.get("status") == "False":
            text = f"{healthy.get('reason', '')}: {healthy.get('message', '')}"
            kind = "unregistered" if healthy.get("reason") == "RegistrationFailed" else refusal(text)
            found.append(trouble(kind or "unregistered", pool, text, when=moment(healthy.get("lastTransitionTime"))))
        found += [
            trouble("node-class", pool, f"{name} is False: {one.get('message', '')}")
            for name in ("NodeClassReady", "ValidationSucceeded")
            if (one := condition(pool, name)).get("status") == "False"
        ]
    return found


def launch_troubles(events: Sequence[Object]) -> list[Trouble]:
    """What Karpenter's events say of claims that it has deleted since; one of each kind, the newest."""
    newest: dict[TroubleKind, Trouble] = {}
    for event in sorted(events, key=lambda event: str(event_time(event))):
        item, text = about(event), said(event)
        if item["kind"] != "NodeClaim":
            continue
        if event.get("reason") == "InsufficientCapacityError":
            kind = refusal(text.partition("event:")[2] or text) or "capacity"
            newest[kind] = trouble(kind, item, text, when=event_time(event))
        elif event.get("reason") == "NodeClassNotReady":
            newest["node-class"] = trouble("node-class", item, text, when=event_time(event))
    return list(newest.values())


def spot_troubles(events: Sequence[Object], since: datetime) -> list[Trouble]:
    """Nodes that AWS announced to take back, once each, in order of time."""
    found: dict[str, Trouble] = {}
    for event in sorted(events, key=lambda event: str(event_time(event))):
        when, item = event_time(event), about(event)
        if event.get("reason") == "SpotInterrupted" and item["kind"] == "NodeClaim" and when and when >= since:
            found[item["metadata"]["name"]] = trouble("spot", item, said(event), when=when)
    return list(found.values())


def karpenter_troubles(controllers: Sequence[Object]) -> list[Trouble]:
    """Whether Karpenter's Deployment lacks every pod. Without a Deployment none: Karpenter may run elsewhere."""
    found = [one for one in controllers if labels_of(one).get("app.kubernetes.io/name") == "karpenter"]
    return [
        trouble("karpenter", one, f"0 of {one['spec'].get('replicas', 1)} pods are available")
        for one in found
        if not (one.get("status") or {}).get("availableReplicas")
    ]

"""Why there are not more replicas: Deployments, autoscalers, disruption budgets, the load balancer's binding, Helm.

Pure functions of lists of the API; asks nobody, knows no alarm. Invariant: an autoscaler at its maximum is a trouble
only where it says itself that it would go beyond.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from infra.diagnosis.kubernetes_objects import (
    Object,
    Trouble,
    TroubleKind,
    about,
    condition,
    event_time,
    labels_of,
    moment,
    said,
    trouble,
)

_STUCK = re.compile(r"pending-(install|upgrade|rollback)")
_PAUSED = "autoscaling.keda.sh/paused"


def workload_troubles(workloads: Sequence[Object], events: Sequence[Object], *, namespace: str) -> list[Trouble]:
    """Pods that a Deployment or StatefulSet is not allowed to make. `namespace` is the server's."""
    found: dict[str, Trouble] = {}
    for item in workloads:
        failure = condition(item, "ReplicaFailure")
        if failure.get("status") == "True":
            found[item["metadata"]["name"]] = _refused(item, failure.get("message", ""), None, namespace)
    for event in events:
        item = about(event)
        name: str = item["metadata"]["name"]
        if event.get("reason") == "FailedCreate" and not any(name.startswith(owner) for owner in found):
            found[name] = _refused(item, said(event), event_time(event), namespace)
    return list(found.values())


def _refused(item: Object, message: str, when: datetime | None, namespace: str) -> Trouble:
    kind: TroubleKind = "namespace-quota" if "exceeded quota" in message else "refused"
    return trouble(kind, item, message, when=when, server=item["metadata"].get("namespace") == namespace)


def scaler_troubles(scalers: Sequence[Object], scaled: Sequence[Object]) -> list[Trouble]:
    """Troubles of HorizontalPodAutoscalers and of KEDA's ScaledObjects."""
    return [one for item in scalers for one in _scaler(item)] + [one for item in scaled for one in _scaled(item)]


def _scaler(item: Object) -> Iterator[Trouble]:
    active, able, limited = (condition(item, kind) for kind in ("ScalingActive", "AbleToScale", "ScalingLimited"))
    for one in (active, able):
        if one.get("status") == "False" and one.get("reason") != "ScalingDisabled":
            yield trouble("no-metrics", item, f"{one.get('reason')}: {one.get('message', '')}")
    if limited.get("status") == "True" and limited.get("reason") == "TooManyReplicas":
        replicas = (item.get("status") or {}).get("currentReplicas", 0)
        yield trouble("maximum", item, f"at {replicas} of {item['spec']['maxReplicas']} replicas, and would have more")


def _scaled(item: Object) -> Iterator[Trouble]:
    annotations = item["metadata"].get("annotations") or {}
    if condition(item, "Paused").get("status") == "True" or annotations.get(_PAUSED) == "true":
        yield trouble("paused", item, f"paused by the annotation {_PAUSED}")
        return
    ready, fallback = condition(item, "Ready"), condition(item, "Fallback")
    if ready.get("status") in ("False", "Unknown") and ready.get("reason"):
        yield trouble("no-metrics", item, f"{ready['reason']}: {ready.get('message', '')}")
    elif fallback.get("status") == "True":
        yield trouble("no-metrics", item, f"{fallback.get('reason', '')}: {fallback.get('message', '')}")


def budget_troubles(budgets: Sequence[Object], events: Sequence[Object], since: datetime) -> list[Trouble]:
    """Disruption budgets without room while something would drain; both must be so."""
    blocked = [
        event
        for event in events
        if event.get("reason") in ("FailedDraining", "DisruptionBlocked", "TerminationGracePeriodExpiring")
        and ((when := event_time(event)) is None or when >= since)
    ]
    return [
        trouble(
            "budget-blocks",
            item,
            f"allows 0 disruptions with {status.get('currentHealthy', 0)} of {status.get('desiredHealthy', 0)} pods "
            f"healthy; {said(blocked[-1])}",
            when=event_time(blocked[-1]),
        )
        for item in budgets
        if blocked and (status := item.get("status") or {}).get("expectedPods") and not status.get("disruptionsAllowed")
    ]


def binding_troubles(bindings: Sequence[Object], namespace: str) -> list[Trouble]:
    """Whether nothing registers pods with the load balancer."""
    if bindings:
        return []
    absent = {"kind": "TargetGroupBinding", "metadata": {"name": "(any)", "namespace": namespace}}
    return [trouble("unbound", absent, "there is none, so no pod is registered with the load balancer", server=True)]


def release_troubles(releases: Sequence[Object]) -> list[Trouble]:
    """Helm releases in the middle of an operation; each revision is a Secret, of which only labels are read."""
    found: list[Trouble] = []
    for secret in releases:
        status = labels_of(secret).get("status", "")
        if _STUCK.fullmatch(status):
            name = labels_of(secret).get("name", "?")
            revision = labels_of(secret).get("version", "?")
            item = {"kind": "Helm release", "metadata": {**secret["metadata"], "name": name}}
            when = moment(secret["metadata"].get("creationTimestamp"))
            found.append(trouble("release", item, f"revision {revision} is {status}", when=when))
    return found

"""Looks at the cluster: pods, events, nodes, Karpenter, autoscalers, disruption budgets, Helm releases.

Facts: `ClusterFacts`. Knows no causes. Invariant: whatever part of the cluster cannot be read is said, and the rest is
looked at all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra.diagnosis.evidence import Collector, Context, Evidence, Finding, NotSeen
from infra.diagnosis.kubernetes_capacity import (
    claim_troubles,
    karpenter_troubles,
    launch_troubles,
    node_troubles,
    pool_troubles,
    spot_troubles,
)
from infra.diagnosis.kubernetes_objects import (
    SOURCE,
    Object,
    Trouble,
    TroubleKind,
    condition,
    created_s,
    gpus_seen,
    is_gpu_node,
    labels_of,
    moment,
    title,
)
from infra.diagnosis.kubernetes_pods import Surroundings, is_ready, is_server, pod_troubles, waits_for_node
from infra.diagnosis.kubernetes_reader import ClusterReader, Kind, opened
from infra.diagnosis.kubernetes_scaling import (
    binding_troubles,
    budget_troubles,
    release_troubles,
    scaler_troubles,
    workload_troubles,
)

_KARPENTER, _KEDA, _BALANCER = "Karpenter", "KEDA", "the AWS Load Balancer Controller"
PODS = Kind(api="/api/v1", plural="pods", kind="Pod")
EVENTS = Kind(api="/api/v1", plural="events", kind="Event", fields="type=Warning")
NODES = Kind(api="/api/v1", plural="nodes", kind="Node", namespaced=False)
DEPLOYMENTS = Kind(api="/apis/apps/v1", plural="deployments", kind="Deployment")
STATEFUL_SETS = Kind(api="/apis/apps/v1", plural="statefulsets", kind="StatefulSet")
DAEMON_SETS = Kind(api="/apis/apps/v1", plural="daemonsets", kind="DaemonSet")
BUDGETS = Kind(api="/apis/policy/v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget")
SCALERS = Kind(api="/apis/autoscaling/v2", plural="horizontalpodautoscalers", kind="HorizontalPodAutoscaler")
SCALED = Kind(api="/apis/keda.sh/v1alpha1", plural="scaledobjects", kind="ScaledObject", owner=_KEDA)
POOLS = Kind(api="/apis/karpenter.sh/v1", plural="nodepools", kind="NodePool", namespaced=False, owner=_KARPENTER)
CLAIMS = Kind(api="/apis/karpenter.sh/v1", plural="nodeclaims", kind="NodeClaim", namespaced=False, owner=_KARPENTER)
BINDINGS = Kind(
    api="/apis/elbv2.k8s.aws/v1beta1", plural="targetgroupbindings", kind="TargetGroupBinding", owner=_BALANCER
)
RELEASES = Kind(
    api="/api/v1", plural="secrets", kind="Secret", labels="owner=helm", fields="type=helm.sh/release.v1",
    metadata_only=True,
)  # fmt: skip

_PODS_AND_NODES = (PODS, EVENTS, NODES, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, POOLS, CLAIMS)
ASKED: dict[str, tuple[Kind, ...]] = {
    "pods-unschedulable": _PODS_AND_NODES,
    "no-data": _PODS_AND_NODES,
    "queue-growing": (*_PODS_AND_NODES, SCALERS, SCALED),
    "load-balancer-5xx": (*_PODS_AND_NODES, BINDINGS),
    "spot-interruptions": (*_PODS_AND_NODES, BUDGETS),
    "interruption-queue-stuck": (PODS, EVENTS, DEPLOYMENTS),
    "bootstrap-failed": (*_PODS_AND_NODES, RELEASES),
}
"""What each alarm's page looks at in the cluster; an alarm that is not here does not ask for it."""
_MOST = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterFacts:
    """The cluster, as far as the alarm's page asks for it."""

    troubles: tuple[Trouble, ...]
    """Everything that is not as it should be."""
    ready: int | None
    """Server's pods that take requests; None: pods were not seen."""
    wanted: int | None
    """Server's pods that Deployments and StatefulSets are to have; None: those were not seen, or there are none."""
    deployed: bool | None
    """Whether there is a Deployment, StatefulSet or pod of the server; None: not seen."""
    on_demand: tuple[Finding, ...] = ()
    """Nodes on demand made since, by pools that also take spot."""

    def of(self, *kinds: TroubleKind, server: bool = False) -> tuple[Finding, ...]:
        """Findings of troubles of these kinds; with `server`, of the server's alone."""
        return tuple(one.finding for one in self.troubles if one.kind in kinds and (one.server or not server))


class ClusterCollector:
    """Reads what the alarm's page looks at in the cluster."""

    source: str = SOURCE

    def wanted(self, context: Context) -> bool:
        """For alarms whose page looks into the cluster, where there is a way to one."""
        return context.cluster is not None and context.alarm in ASKED

    def collect(self, context: Context) -> Evidence:
        """Lists of the API, and what is wrong in them."""
        assert context.cluster is not None, "wanted only with a way to the cluster"
        with opened(context.cluster, context.named("cluster")) as reader:
            if isinstance(reader, NotSeen):
                return Evidence(not_seen=(reader,))
            return examined(reader, context, context.cluster.namespace)


def examined(reader: ClusterReader, context: Context, namespace: str) -> Evidence:
    """What a reader's lists show. `namespace` is the server's."""
    asked = ASKED[context.alarm]
    own = {SCALERS, SCALED, BINDINGS, STATEFUL_SETS}
    seen = {kind: reader.own(kind) if kind in own else reader.everywhere(kind) for kind in asked}

    def known(kind: Kind) -> tuple[Object, ...]:
        return seen.get(kind) or ()

    pods, events = known(PODS), known(EVENTS)
    around = Surroundings(
        events=events, nodes=seen.get(NODES), pools=seen.get(POOLS), since=context.since, now=context.now
    )
    workloads = [*known(DEPLOYMENTS), *known(STATEFUL_SETS)]
    troubles = [
        *pod_troubles(pods, around, namespace=namespace),
        *workload_troubles(workloads, events, namespace=namespace),
        *node_troubles(known(NODES), seen.get(DAEMON_SETS), context.now),
        *claim_troubles(known(CLAIMS), context.now),
        *pool_troubles(known(POOLS)),
        *launch_troubles(events),
        *spot_troubles(events, context.since),
        *karpenter_troubles(known(DEPLOYMENTS)),
        *scaler_troubles(known(SCALERS), known(SCALED)),
        *budget_troubles(known(BUDGETS), events, context.since),
        *(binding_troubles(known(BINDINGS), namespace) if seen.get(BINDINGS) is not None else ()),
        *release_troubles(known(RELEASES)),
    ]
    findings = [*_summary(seen, namespace), *(one.finding for one in troubles)]
    if len(findings) > _MOST:
        rest = Finding(source=SOURCE, what="further troubles", value=f"{len(findings) - _MOST} more of the same kinds")
        findings = [*findings[:_MOST], rest]
    if not any(objects is not None for objects in seen.values()):
        return Evidence(not_seen=tuple(reader.not_seen))
    serving = [pod for pod in pods if is_server(pod, namespace)]
    counted = [one for one in workloads if one["metadata"].get("namespace") == namespace and is_server(one, namespace)]
    complete = seen.get(DEPLOYMENTS) is not None and seen.get(PODS) is not None
    facts = ClusterFacts(
        troubles=tuple(troubles),
        ready=None if seen.get(PODS) is None else sum(is_ready(pod) for pod in serving),
        wanted=sum(one["spec"].get("replicas", 1) for one in counted) if counted else None,
        deployed=bool(counted or serving) if complete else None,
        on_demand=_on_demand(known(CLAIMS), known(POOLS), context),
    )
    return Evidence(findings=tuple(findings), not_seen=tuple(reader.not_seen), facts=(facts,))


def _summary(seen: dict[Kind, tuple[Object, ...] | None], namespace: str) -> list[Finding]:
    """Counts, so that a reader sees what was looked at where nothing is wrong."""
    lines: list[tuple[str, str]] = []
    if (pods := seen.get(PODS)) is not None:
        own = [pod for pod in pods if is_server(pod, namespace)]
        waiting = sum(waits_for_node(pod) for pod in pods)
        lines.append((f"pods of the server in {namespace}", f"{len(own)}, {sum(map(is_ready, own))} ready"))
        lines.append(("pods that wait for a node", f"{waiting} of {len(pods)}"))
    if (nodes := seen.get(NODES)) is not None:
        ready = sum(condition(node, "Ready").get("status") == "True" for node in nodes)
        gpus = [node for node in nodes if is_gpu_node(node)]
        total = sum(int(gpus_seen(node)) for node in gpus)
        lines.append(("nodes", f"{len(nodes)}, {ready} ready; {len(gpus)} with GPUs, {total} GPUs offered"))
    for pool in seen.get(POOLS) or ():
        used, limits = (pool.get("status") or {}).get("resources") or {}, pool["spec"].get("limits") or {}
        text = ", ".join(f"{used.get(name, 0)} of {limit} {name}" for name, limit in limits.items())
        lines.append((title(pool), f"in use: {text}" if text else "has no limits"))
    if (claims := seen.get(CLAIMS)) is not None:
        done = sum(condition(claim, "Initialized").get("status") == "True" for claim in claims)
        lines.append(("NodeClaims", f"{len(claims)}, {done} initialized"))
    return [Finding(source=SOURCE, what=what, value=value) for what, value in lines]


def _on_demand(claims: Sequence[Object], pools: Sequence[Object], context: Context) -> tuple[Finding, ...]:
    label = "karpenter.sh/capacity-type"
    mixed = {
        pool["metadata"]["name"]
        for pool in pools
        for need in pool["spec"]["template"]["spec"].get("requirements") or ()
        if need.get("key") == label and {"spot", "on-demand"} <= set(need.get("values") or ())
    }
    span_s = (context.now - context.since).total_seconds()
    return tuple(
        Finding(
            source=SOURCE,
            what=title(claim),
            value=f"{labels_of(claim).get('node.kubernetes.io/instance-type', 'instance')} on demand",
            when=moment(claim["metadata"].get("creationTimestamp")),
        )
        for claim in claims
        if labels_of(claim).get(label) == "on-demand"
        and labels_of(claim).get("karpenter.sh/nodepool") in mixed
        and created_s(claim, context.now) <= span_s
    )


COLLECTORS: tuple[Collector, ...] = (ClusterCollector(),)

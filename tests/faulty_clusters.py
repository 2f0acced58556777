"""The recorded healthy cluster with one fault each: why pods do not serve, or do not suffice, and which cause it is.

The words are those of the kubelet, Karpenter and KEDA. Knows no diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from recorded_clusters import IMAGE, NAMESPACE, Lists, Object, Recorder, healthy
from waiting_clusters import (
    account_quota,
    all_wait,
    device_plugin,
    full_subnets,
    never_registered,
    no_capacity,
    no_karpenter,
    no_node_class,
    node_not_ready,
    not_permitted,
    pool_limits,
    pool_unhealthy,
    taint,
    too_large,
    unbound_volume,
)


def image_pull(now: datetime) -> Lists:
    """A release names an image that the registry does not have; no pod of it runs, and none of the old one is left."""
    lists, make = healthy(now), Recorder(now)
    for pod in lists["pods"]:
        missing = f'Back-off pulling image "{IMAGE}": ErrImagePull: rpc error: code = NotFound desc = failed to pull '
        missing += f'and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": not found'
        _broken(make, pod, make.container(state={"waiting": {"reason": "ImagePullBackOff", "message": missing}}))
        pod["status"]["phase"] = "Pending"
    return lists


def _broken(make: Recorder, pod: Object, container: Object) -> None:
    pod["status"]["containerStatuses"] = [container]
    for one in pod["status"]["conditions"]:
        if one["type"] in ("Ready", "ContainersReady"):
            one |= {"status": "False", "reason": "ContainersNotReady", "lastTransitionTime": make.time(20)}
            one["message"] = "containers with unready status: [server]"


def _ended(now: datetime, reason: str, code: int) -> Lists:
    lists, make = healthy(now), Recorder(now)
    for pod in lists["pods"]:
        end = {
            "terminated": {"reason": reason, "exitCode": code, "startedAt": make.time(6), "finishedAt": make.time(4)}
        }
        wait = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=server"}
        _broken(make, pod, make.container(state={"waiting": wait}, restarts=9, last=end))
    return lists


def out_of_memory(now: datetime) -> Lists:
    """The kernel ends the container, again and again."""
    return _ended(now, "OOMKilled", 137)


def crash_loop(now: datetime) -> Lists:
    """The container ends by itself, again and again."""
    return _ended(now, "Error", 3)


def not_ready(now: datetime) -> Lists:
    """Containers run, and the readiness probe says no."""
    lists, make = healthy(now), Recorder(now)
    for pod in lists["pods"]:
        _broken(make, pod, make.container(state={"running": {"startedAt": make.time(40)}}))
        pod["status"]["containerStatuses"][0]["started"] = True
        message = "Readiness probe failed: HTTP probe failed with statuscode: 503"
        lists["events"].append(make.event({"kind": "Pod", **pod}, "Unhealthy", message, source="kubelet"))
    return lists


def namespace_quota(now: datetime) -> Lists:
    """A ResourceQuota does not let the Deployment make its pods."""
    lists, make = healthy(now), Recorder(now)
    lists["pods"] = []
    message = 'pods "eagle3-7c9f8d-" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: '
    message += "requests.nvidia.com/gpu=16, limited: requests.nvidia.com/gpu=16"
    failure = make.condition("ReplicaFailure", "True", minutes=30, reason="FailedCreate", message=message)
    lists["apps/deployments"][0]["status"] = {"conditions": [failure]}
    return lists


def nothing_deployed(now: datetime) -> Lists:
    """The namespace is empty."""
    lists = healthy(now)
    lists["pods"], lists["apps/deployments"] = [], lists["apps/deployments"][1:]
    return lists


def _autoscaled(now: datetime, *, limited: bool, active: bool) -> Lists:
    lists, make = healthy(now), Recorder(now)
    able = make.condition("AbleToScale", "True", reason="ReadyForNewScale", message="recommended size matches")
    metric = "unable to get external metric eagle3/s0-metrics-api-queue_depth: no metrics returned from external API"
    worked = ("ValidMetricFound", "the HPA was able to compute the replica count")
    reason, message = worked if active else ("FailedGetExternalMetric", metric)
    on = make.condition("ScalingActive", str(active), reason=reason, message=message)
    reason = "TooManyReplicas" if limited else "DesiredWithinRange"
    held = make.condition("ScalingLimited", str(limited), reason=reason, message="the desired replica count")
    lists["autoscaling/horizontalpodautoscalers"] = [
        {
            "metadata": make.metadata("keda-hpa-eagle3", NAMESPACE),
            "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "eagle3"}},
            "status": {"currentReplicas": 2, "desiredReplicas": 2, "conditions": [able, on, held]},
        }
    ]
    # KEDA's conditions have no times.
    ready = {"type": "Ready", "status": "True", "reason": "ScaledObjectReady", "message": "ready for scaling"}
    lists["keda.sh/scaledobjects"] = [
        {
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": make.metadata("eagle3", NAMESPACE),
            "spec": {"scaleTargetRef": {"name": "eagle3"}, "maxReplicaCount": 2,
                     "triggers": [{"type": "metrics-api", "metadata": {"targetValue": "4"}}]},
            "status": {"conditions": [ready]},
        }
    ]  # fmt: skip
    return lists


def autoscaled(now: datetime) -> Lists:
    """Healthy, with an autoscaler that is content."""
    return _autoscaled(now, limited=False, active=True)


def at_maximum(now: datetime) -> Lists:
    """The autoscaler would have more replicas than it may."""
    return _autoscaled(now, limited=True, active=True)


def no_metrics(now: datetime) -> Lists:
    """The autoscaler is told nothing."""
    return _autoscaled(now, limited=False, active=False)


def paused(now: datetime) -> Lists:
    """Somebody paused autoscaling and forgot it."""
    lists = _autoscaled(now, limited=False, active=True)
    [scaled] = lists["keda.sh/scaledobjects"]
    scaled["metadata"]["annotations"] = {"autoscaling.keda.sh/paused": "true"}
    said = {"reason": "ScaledObjectPaused", "message": "ScaledObject is paused"}
    scaled["status"]["conditions"].append({"type": "Paused", "status": "True", **said})
    return lists


def unbound(now: datetime) -> Lists:
    """No TargetGroupBinding registers pods with the load balancer."""
    return healthy(now) | {"elbv2.k8s.aws/targetgroupbindings": []}


def _interrupted(now: datetime) -> tuple[Lists, Recorder]:
    lists, make = healthy(now), Recorder(now)
    for minutes, name in ((40, "gpu-p4d-aaaaa"), (25, "gpu-p4d-bbbbb"), (10, "gpu-p4d-ccccc")):
        claim = {"kind": "NodeClaim", "metadata": {"name": name}}
        message = "Spot interruption warning was triggered"
        lists["events"].append(make.event(claim, "SpotInterrupted", message, minutes=minutes, source="karpenter"))
    return lists, make


def spot(now: datetime) -> Lists:
    """AWS took three nodes back within the hour, and spot nodes came in their place."""
    return _interrupted(now)[0]


def spot_to_on_demand(now: datetime) -> Lists:
    """Nodes on demand came in their place."""
    lists, make = _interrupted(now)
    for name in ("gpu-p4d-ddddd", "gpu-p4d-eeeee"):
        claim = make.claim(name, minutes=20)
        claim["metadata"]["labels"]["karpenter.sh/capacity-type"] = "on-demand"
        lists["karpenter.sh/nodeclaims"].append(claim)
    return lists


def blocked_drain(now: datetime) -> Lists:
    """A disruption budget without room keeps pods on nodes that end."""
    lists, make = _interrupted(now)
    lists["policy/poddisruptionbudgets"] = [
        {
            "metadata": make.metadata("eagle3", NAMESPACE),
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app.kubernetes.io/name": "eagle3"}}},
            "status": {"currentHealthy": 2, "desiredHealthy": 2, "disruptionsAllowed": 0, "expectedPods": 2},
        }
    ]
    node = {"kind": "Node", "metadata": {"name": "ip-10-0-1-11.ec2.internal"}}
    message = "Failed to drain node, 1 pods are waiting to be evicted"
    lists["events"].append(make.event(node, "FailedDraining", message, minutes=8, source="karpenter"))
    return lists


def stuck_release(now: datetime) -> Lists:
    """A build ended while Helm worked, and left the release locked."""
    lists, make = healthy(now), Recorder(now)
    labels = {"owner": "helm", "name": "eagle3", "status": "pending-upgrade", "version": "4"}
    metadata = make.metadata("sh.helm.release.v1.eagle3.v4", NAMESPACE, minutes=50, labels=labels)
    done = make.metadata("sh.helm.release.v1.eagle3.v3", NAMESPACE, labels=labels | {"status": "deployed"})
    kind = "helm.sh/release.v1"
    lists["secrets"] = [{"metadata": one, "type": kind, "data": {"release": "c2VjcmV0"}} for one in (done, metadata)]
    return lists


def no_config(now: datetime) -> Lists:
    """A ConfigMap that the container needs is not there."""
    lists, make = healthy(now), Recorder(now)
    for pod in lists["pods"]:
        waiting = {"reason": "CreateContainerConfigError", "message": 'configmap "eagle3" not found'}
        _broken(make, pod, make.container(state={"waiting": waiting}))
        pod["status"]["phase"] = "Pending"
    return lists


def refused_pods(now: datetime) -> Lists:
    """The namespace's security level does not let the pods in: the event of the ReplicaSet says so."""
    lists, make = healthy(now), Recorder(now)
    lists["pods"] = []
    message = 'pods "eagle3-7c9f8d-" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
    about = {"kind": "ReplicaSet", "metadata": {"name": "eagle3-7c9f8d", "namespace": NAMESPACE}}
    lists["events"].append(make.event(about, "FailedCreate", message, source="replicaset-controller"))
    return lists


def none_wanted(now: datetime) -> Lists:
    """Somebody scaled the Deployment to zero."""
    lists = healthy(now)
    lists["pods"] = []
    lists["apps/deployments"][0]["spec"]["replicas"] = 0
    return lists


CAUSES: tuple[tuple[str, Callable[[datetime], Lists], str], ...] = (
    ("pods-unschedulable", taint, "untolerated taint"),
    ("pods-unschedulable", device_plugin, "device plugin missing on a GPU node"),
    ("pods-unschedulable", pool_limits, "the pool's limits are used up"),
    ("pods-unschedulable", never_registered, "a node never registered"),
    ("pods-unschedulable", not_permitted, "the controller may not launch"),
    ("pods-unschedulable", no_capacity, "no capacity in these zones"),
    ("pods-unschedulable", account_quota, "a quota of the account"),
    ("pods-unschedulable", image_pull, "an image cannot be pulled"),
    ("pods-unschedulable", namespace_quota, "a quota of the namespace"),
    ("pods-unschedulable", no_karpenter, "Karpenter does not run"),
    ("pods-unschedulable", no_node_class, "the node class is not ready"),
    ("pods-unschedulable", pool_unhealthy, "a node never registered"),
    ("pods-unschedulable", full_subnets, "no free address in the subnets"),
    ("pods-unschedulable", too_large, "no instance type fits"),
    ("pods-unschedulable", unbound_volume, "a volume is not bound"),
    ("pods-unschedulable", node_not_ready, "a node is not ready"),
    ("no-data", nothing_deployed, "nothing is deployed"),
    ("no-data", none_wanted, "no replica is wanted"),
    ("no-data", no_config, "a container cannot be made"),
    ("no-data", refused_pods, "the cluster refuses the pods"),
    ("no-data", all_wait, "pods wait for a node"),
    ("no-data", image_pull, "an image cannot be pulled"),
    ("no-data", out_of_memory, "a container ends for want of memory"),
    ("no-data", crash_loop, "a container ends again and again"),
    ("no-data", not_ready, "replicas do not become ready"),
    ("no-data", namespace_quota, "a quota of the namespace"),
    ("queue-growing", at_maximum, "autoscaling is at its maximum"),
    ("queue-growing", no_metrics, "the autoscaler sees no metrics"),
    ("queue-growing", paused, "autoscaling is paused"),
    ("queue-growing", no_capacity, "pods wait for a node"),
    ("queue-growing", crash_loop, "a container ends again and again"),
    ("load-balancer-5xx", unbound, "no pod is bound to the load balancer"),
    ("load-balancer-5xx", out_of_memory, "a container ends for want of memory"),
    ("load-balancer-5xx", not_ready, "replicas do not become ready"),
    ("load-balancer-5xx", spot, "nodes were taken back"),
    ("spot-interruptions", spot, "AWS takes spot nodes back"),
    ("spot-interruptions", spot_to_on_demand, "on-demand nodes have taken over"),
    ("spot-interruptions", blocked_drain, "a disruption budget blocks draining"),
    ("spot-interruptions", no_capacity, "no capacity in these zones"),
    ("bootstrap-failed", stuck_release, "a Helm release is stuck"),
    ("bootstrap-failed", image_pull, "an image cannot be pulled"),
    ("bootstrap-failed", crash_loop, "a container ends again and again"),
    ("bootstrap-failed", taint, "pods wait for a node"),
    ("queue-growing", image_pull, "an image cannot be pulled"),
    ("queue-growing", out_of_memory, "a container ends for want of memory"),
    ("queue-growing", namespace_quota, "a quota of the namespace"),
    ("queue-growing", not_ready, "replicas do not become ready"),
    ("load-balancer-5xx", nothing_deployed, "nothing is deployed"),
    ("load-balancer-5xx", none_wanted, "no replica is wanted"),
    ("load-balancer-5xx", crash_loop, "a container ends again and again"),
    ("load-balancer-5xx", image_pull, "an image cannot be pulled"),
    ("load-balancer-5xx", no_config, "a container cannot be made"),
    ("load-balancer-5xx", namespace_quota, "a quota of the namespace"),
    ("load-balancer-5xx", all_wait, "pods wait for a node"),
    ("spot-interruptions", account_quota, "a quota of the account"),
    ("spot-interruptions", pool_limits, "the pool's limits are used up"),
    ("interruption-queue-stuck", no_karpenter, "Karpenter does not run"),
    ("bootstrap-failed", no_config, "a container cannot be made"),
    ("bootstrap-failed", out_of_memory, "a container ends for want of memory"),
    ("bootstrap-failed", namespace_quota, "a quota of the namespace"),
    ("bootstrap-failed", refused_pods, "the cluster refuses the pods"),
    ("bootstrap-failed", not_ready, "replicas do not become ready"),
)
"""Alarm, cluster, and the cause that a diagnosis of the cluster names first."""
HEALTHY: tuple[Callable[[datetime], Lists], ...] = (healthy, autoscaled)

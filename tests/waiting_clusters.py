"""The recorded healthy cluster with a pod that waits for a node, for one reason each.

The words are those of the scheduler and of Karpenter. Knows no diagnosis.
"""

from __future__ import annotations

from datetime import datetime

from recorded_clusters import GPU, POOL, Lists, Object, Recorder, healthy

_WAITS = "eagle3-7c9f8d-c"
_FULL = f"2 Insufficient {GPU}, 2 node(s) didn't match Pod's node affinity/selector"


def _waiting(lists: Lists, make: Recorder, message: str, *, karpenter: str = "", tolerates: bool = True) -> Object:
    """A third pod that has found no node for half an hour."""
    pod = make.pod(_WAITS, node=None, minutes=31, tolerates=tolerates)
    said = f"0/4 nodes are available: {message}. preemption: 0/4 nodes are available: 4 Preemption is not helpful for "
    said += "scheduling."
    pod["status"]["conditions"] = [
        make.condition("PodScheduled", "False", minutes=31, reason="Unschedulable", message=said)
    ]
    lists["pods"].append(pod)
    lists["apps/deployments"][0]["spec"]["replicas"] += 1
    about = {"kind": "Pod", "metadata": pod["metadata"]}
    lists["events"].append(make.event(about, "FailedScheduling", said, minutes=2))
    if karpenter:
        text = f"Failed to schedule pod, {karpenter}"
        lists["events"].append(make.event(about, "FailedScheduling", text, minutes=1, source="karpenter"))
    return pod


def taint(now: datetime) -> Lists:
    """The pods of a new release lack the toleration; the system nodes have no taint and no GPU."""
    lists, make = healthy(now), Recorder(now)
    message = "2 node(s) didn't match Pod's node affinity/selector, 2 node(s) had untolerated taint(s)"
    tried = f"did not tolerate taint (taint={GPU}=true:NoSchedule)"
    _waiting(lists, make, message, karpenter=tried, tolerates=False)
    return lists


def device_plugin(now: datetime) -> Lists:
    """A new node is there, registered, and shows no GPU, since the plugin does not run on it."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, f"3 Insufficient {GPU}, 2 node(s) didn't match Pod's node affinity/selector")
    lists["nodes"].append(make.node("ip-10-0-1-13.ec2.internal", gpus=0, minutes=24))
    message = f'Resource "{GPU}" was requested but not registered'
    stuck = make.custom_condition("Initialized", "Unknown", minutes=22, reason="ResourceNotRegistered", message=message)
    lists["karpenter.sh/nodeclaims"].append(make.claim("gpu-p4d-zz81m", minutes=28, Initialized=stuck))
    lists["karpenter.sh/nodepools"] = [make.pool(used=24)]  # the node without GPUs counts as full
    lists["apps/daemonsets"] = [make.device_plugin(nodes=2, ready=2)]
    return lists


def pool_limits(now: datetime) -> Lists:
    """All GPUs of the pool's limit are in use, by three nodes that serve."""
    lists, make = healthy(now), Recorder(now)
    lists["nodes"].append(make.node("ip-10-0-1-13.ec2.internal", gpus=8))
    lists["pods"].append(make.pod("eagle3-7c9f8d-d", node="ip-10-0-1-13.ec2.internal"))
    lists["karpenter.sh/nodeclaims"].append(make.claim("gpu-p4d-zz81m"))
    lists["karpenter.sh/nodepools"] = [make.pool(used=24)]
    _waiting(lists, make, _FULL, karpenter=f"all available instance types exceed limits for nodepool (NodePool={POOL})")
    return lists


def never_registered(now: datetime) -> Lists:
    """An instance was launched twelve minutes ago and has not become a node."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, _FULL)
    missing = {"minutes": 12, "reason": "NodeNotFound", "message": "Node not registered with cluster"}
    conditions = {kind: make.custom_condition(kind, "Unknown", **missing) for kind in ("Registered", "Initialized")}
    conditions["Launched"] = make.custom_condition("Launched", "True", minutes=12)
    conditions["Ready"] = make.custom_condition("Ready", "Unknown", minutes=12)
    lists["karpenter.sh/nodeclaims"].append(make.claim("gpu-p4d-zz81m", minutes=13, **conditions))
    return lists


def not_permitted(now: datetime) -> Lists:
    """EC2 refuses the controller's call."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, _FULL)
    message = "User is not authorized to perform this operation because no identity-based policy allows it"
    refused = make.custom_condition("Launched", "Unknown", minutes=3, reason="Unauthorized", message=message)
    waits = {kind: make.custom_condition(kind, "Unknown", minutes=3) for kind in ("Registered", "Initialized", "Ready")}
    lists["karpenter.sh/nodeclaims"].append(make.claim("gpu-p4d-zz81m", minutes=3, Launched=refused, **waits))
    return lists


def _launch_refused(now: datetime, words: str) -> Lists:
    """Karpenter deletes such claims, so only its event is left."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, _FULL)
    claim = {"kind": "NodeClaim", "metadata": {"name": "gpu-p4d-zz81m"}}
    message = f"NodeClaim gpu-p4d-zz81m event: creating instance, {words}"
    lists["events"].append(make.event(claim, "InsufficientCapacityError", message, source="karpenter"))
    return lists


def no_capacity(now: datetime) -> Lists:
    """AWS has no such instance in these zones."""
    return _launch_refused(
        now,
        "insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: We currently do not have sufficient "
        f"p4d.24xlarge capacity in the Availability Zone you requested ({'us-east-1a'}).",
    )


def account_quota(now: datetime) -> Lists:
    """The account may not have so many virtual CPUs; Karpenter calls it a lack of capacity too."""
    return _launch_refused(
        now,
        "insufficient capacity, with fleet error(s), VcpuLimitExceeded: You have requested more vCPU capacity than "
        "your current vCPU limit of 192 allows for the instance bucket that the specified instance type belongs to.",
    )


def no_karpenter(now: datetime) -> Lists:
    """Nothing makes nodes: the controller has no pod that is ready."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, _FULL)
    lists["apps/deployments"][1]["status"]["availableReplicas"] = 0
    return lists


def no_node_class(now: datetime) -> Lists:
    """The pool's node class finds no subnet."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, _FULL)
    message = "NodeClassReady=False, SubnetsNotFound: SubnetSelector did not match any Subnets"
    [pool] = lists["karpenter.sh/nodepools"]
    pool["status"]["conditions"][1] = make.custom_condition(
        "NodeClassReady", "False", reason="NodeClassNotReady", message=message
    )
    return lists


def pool_unhealthy(now: datetime) -> Lists:
    """Instances never registered, and Karpenter has deleted their claims: the pool remembers."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, _FULL)
    [pool] = lists["karpenter.sh/nodepools"]
    pool["status"]["conditions"][2] = make.custom_condition(
        "NodeRegistrationHealthy", "False", reason="RegistrationFailed", message="Failed to register node"
    )
    return lists


def full_subnets(now: datetime) -> Lists:
    """The subnets have no address left; Karpenter calls it a lack of capacity too."""
    return _launch_refused(
        now,
        "insufficient capacity, with fleet error(s), InsufficientFreeAddressesInSubnet: There are not enough free "
        "addresses in subnet 'subnet-0abc' to satisfy the requested number of instances.",
    )


def too_large(now: datetime) -> Lists:
    """The pod asks for more than any instance has."""
    lists, make = healthy(now), Recorder(now)
    message = (
        'no instance type has enough resources, requirements=karpenter.sh/nodepool In [gpu-p4d], resources={"cpu":'
    )
    _waiting(lists, make, _FULL, karpenter=message + '"400","nvidia.com/gpu":"8"}')
    return lists


def unbound_volume(now: datetime) -> Lists:
    """A claim has no volume."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, "pod has unbound immediate PersistentVolumeClaims")
    return lists


def node_not_ready(now: datetime) -> Lists:
    """A node's kubelet has not been heard of for a quarter of an hour."""
    lists, make = healthy(now), Recorder(now)
    _waiting(lists, make, _FULL)
    message = "Kubelet stopped posting node status."
    lost = make.condition("Ready", "Unknown", minutes=15, reason="NodeStatusUnknown", message=message)
    lists["nodes"][0]["status"]["conditions"][-1] = lost
    return lists


def all_wait(now: datetime) -> Lists:
    """No replica has found a node."""
    lists, make = healthy(now), Recorder(now)
    lists["pods"] = []
    _waiting(lists, make, _FULL)
    return lists

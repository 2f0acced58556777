"""Clusters as their API tells of them: a healthy one, and the same with one fault.

Objects have the fields and words of Kubernetes 1.35, Karpenter 1.14 and KEDA 2.21, with their times counted back from
`now`. Knows no diagnosis. Invariant: a cluster with a fault differs from the healthy one by what that fault changes, so
that a diagnosis which names it has found that difference. tests/infra/test_diagnosis_recorded.py holds the objects
against the schemas of their kinds.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from infra.kubernetes.karpenter import node_pool
from infra.kubernetes.pool_limits import PoolLimits
from infra.settings.pools import PoolSettings

Object = dict[str, Any]
Lists = dict[str, list[Object]]
NAMESPACE = "eagle3"
GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Equal", "value": "true", "effect": "NoSchedule"}
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/eagle3/runtime:0.1.0-cuda13.0"
POOL = "gpu-p4d"
ZONE = "us-east-1a"


class Recorder:
    """Makes objects with times before one moment."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def time(self, minutes: float) -> str:
        """A time of the API so many minutes ago."""
        return (self._now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def metadata(self, name: str, namespace: str | None = None, *, minutes: float = 600, **more: Any) -> Object:
        """Metadata of an object."""
        place = {} if namespace is None else {"namespace": namespace}
        uid = f"00000000-0000-4000-8000-{crc32(name.encode()):012d}"
        return {"name": name, **place, "uid": uid, "creationTimestamp": self.time(minutes), **more}

    def condition(self, kind: str, status: str, *, minutes: float = 590, reason: str = "", message: str = "") -> Object:
        """A condition; reason and message as Kubernetes' own kinds leave them out."""
        said = {key: value for key, value in (("reason", reason), ("message", message)) if value}
        return {"type": kind, "status": status, "lastTransitionTime": self.time(minutes), **said}

    def custom_condition(self, kind: str, status: str, **options: Any) -> Object:
        """A condition of a custom resource: reason and message are always there."""
        one = self.condition(kind, status, **options)
        return {"reason": kind if status == "True" else "AwaitingReconciliation", "message": "", **one}

    def event(self, about: Object, reason: str, message: str, *, minutes: float = 1, source: str = "") -> Object:
        """A warning about an object."""
        named = about["metadata"]
        place = {"namespace": named["namespace"]} if "namespace" in named else {}
        return {
            "metadata": self.metadata(f"{named['name']}.18{len(reason):02d}", place.get("namespace", "default")),
            "involvedObject": {"kind": about["kind"], "name": named["name"], **place},
            "reason": reason, "message": message, "type": "Warning", "count": 7,
            "source": {"component": source or "default-scheduler"}, "reportingComponent": source or "default-scheduler",
            "reportingInstance": "", "firstTimestamp": self.time(minutes + 20), "lastTimestamp": self.time(minutes),
        }  # fmt: skip

    def node(self, name: str, *, gpus: int | None = None, minutes: float = 600) -> Object:
        """A ready node; `gpus` None for one of the system's."""
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": ZONE}
        capacity = {"cpu": "4", "memory": "16Gi", "pods": "58"}
        spec: Object = {"providerID": f"aws:///{ZONE}/i-{crc32(name.encode()):017x}"}
        if gpus is not None:
            labels |= {"nvidia.com/gpu.present": "true", "eagle3-kit/pool": POOL, "karpenter.sh/nodepool": POOL}
            capacity = {"cpu": "96", "memory": "1152Gi", "pods": "250"} | ({GPU: str(gpus)} if gpus else {})
            spec["taints"] = [dict(TAINT)]
        ready = self.condition("Ready", "True", reason="KubeletReady", message="kubelet is posting ready status")
        calm = [
            self.condition(kind, "False", reason=f"KubeletHasNo{kind}", message=f"kubelet has no {kind}")
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
        ]
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [*calm, ready]}
        return {"metadata": self.metadata(name, minutes=minutes, labels=labels), "spec": spec, "status": status}

    def pod(self, name: str, *, node: str | None, minutes: float = 590, tolerates: bool = True) -> Object:
        """A pod of the server: ready on a node, or without one and pending."""
        labels = {
            "app.kubernetes.io/name": "eagle3", "app.kubernetes.io/instance": "eagle3",
            "app.kubernetes.io/component": "server", "app.kubernetes.io/part-of": "eagle3",
        }  # fmt: skip
        resources = {"limits": {GPU: "8"}, "requests": {GPU: "8", "cpu": "48", "memory": "256Gi"}}
        spec: Object = {
            "containers": [{"name": "server", "image": IMAGE, "resources": resources}],
            "nodeSelector": {"nvidia.com/gpu.present": "true"},
            "tolerations": [dict(TOLERATION)] if tolerates else [],
        }
        status: Object = {"phase": "Pending", "conditions": []}
        if node is not None:
            spec["nodeName"] = node
            kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            status = {
                "phase": "Running",
                "conditions": [self.condition(kind, "True", minutes=minutes) for kind in kinds],
                "containerStatuses": [self.container(state={"running": {"startedAt": self.time(minutes)}}, ready=True)],
            }
        metadata = self.metadata(name, NAMESPACE, minutes=minutes, labels=labels)
        return {"metadata": metadata, "spec": spec, "status": status}

    def container(self, *, state: Object, ready: bool = False, restarts: int = 0, last: Object | None = None) -> Object:
        """Status of the server's container."""
        return {
            "name": "server", "image": IMAGE, "imageID": "", "ready": ready, "started": ready, "restartCount": restarts,
            "state": state, "lastState": last or {},
        }  # fmt: skip

    def claim(self, name: str, *, minutes: float = 600, **conditions: Object) -> Object:
        """An initialized NodeClaim, with conditions in place of its own."""
        labels = {"karpenter.sh/nodepool": POOL, "karpenter.sh/capacity-type": "spot",
                  "node.kubernetes.io/instance-type": "p4d.24xlarge", "topology.kubernetes.io/zone": ZONE}  # fmt: skip
        kinds = ("Launched", "Registered", "Initialized", "Ready")
        own = {kind: self.custom_condition(kind, "True", minutes=minutes - 5) for kind in kinds}
        template = node_pool(PoolSettings(), limits=PoolLimits(gpus=24, vcpus=288, usd_per_month=None), zones=[ZONE])
        spec = template["spec"]["template"]["spec"] | {"resources": {"requests": {GPU: "8"}}}
        status = {"conditions": list((own | conditions).values()), "capacity": {"cpu": "96", GPU: "8"}}
        return {
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "spec": spec, "status": status,
            "metadata": self.metadata(name, minutes=minutes, labels=labels),
        }  # fmt: skip

    def pool(self, *, used: int) -> Object:
        """The kit's own NodePool with 24 GPUs at most, so many of them in use."""
        limits = PoolLimits(gpus=24, vcpus=288, usd_per_month=None)
        made = node_pool(PoolSettings(name=POOL), limits=limits, zones=[ZONE, "us-east-1b"])
        kinds = ("ValidationSucceeded", "NodeClassReady", "NodeRegistrationHealthy", "Ready")
        status = {
            "conditions": [self.custom_condition(kind, "True") for kind in kinds],
            "resources": {GPU: str(used), "cpu": str(12 * used), "nodes": str(used // 8)},
            "nodes": used // 8,
        }
        return made | {"metadata": made["metadata"] | self.metadata(POOL), "status": status}

    def deployment(self, name: str, namespace: str, *, replicas: int, available: int) -> Object:
        """A Deployment of the component "server" in the server's namespace, else of the name's."""
        labels = {"app.kubernetes.io/name": name}
        if namespace == NAMESPACE:
            labels["app.kubernetes.io/component"] = "server"
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name, "image": IMAGE}]}}
        return {
            "metadata": self.metadata(name, namespace, labels=labels),
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
            "status": {"replicas": replicas, "availableReplicas": available, "conditions": []},
        }

    def device_plugin(self, *, nodes: int, ready: int) -> Object:
        """The device plugin's DaemonSet."""
        labels = {"app.kubernetes.io/name": "nvidia-device-plugin"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "plugin", "image": IMAGE}]}}
        counts = {"desiredNumberScheduled": nodes, "currentNumberScheduled": nodes, "numberReady": ready}
        return {
            "metadata": self.metadata("nvidia-device-plugin", "kube-system", labels=labels),
            "spec": {"selector": {"matchLabels": labels}, "template": template},
            "status": counts | {"numberMisscheduled": 0},
        }


def healthy(now: datetime) -> Lists:
    """Two replicas on two spot nodes of eight GPUs, two system nodes, room in the pool; by kind in the plural."""
    make = Recorder(now)
    gpu_nodes = ["ip-10-0-1-11.ec2.internal", "ip-10-0-2-12.ec2.internal"]
    return {
        "pods": [make.pod(f"eagle3-7c9f8d-{end}", node=node) for end, node in zip("ab", gpu_nodes, strict=True)],
        "events": [],
        "nodes": [
            *(make.node(name, gpus=8) for name in gpu_nodes),
            *(make.node(f"ip-10-0-3-{last}.ec2.internal") for last in (21, 22)),
        ],
        "secrets": [],
        "apps/deployments": [
            make.deployment("eagle3", NAMESPACE, replicas=2, available=2),
            make.deployment("karpenter", "kube-system", replicas=2, available=2),
        ],
        "apps/statefulsets": [],
        "apps/daemonsets": [make.device_plugin(nodes=2, ready=2)],
        "policy/poddisruptionbudgets": [],
        "autoscaling/horizontalpodautoscalers": [],
        "keda.sh/scaledobjects": [],
        "karpenter.sh/nodepools": [make.pool(used=16)],
        "karpenter.sh/nodeclaims": [make.claim("gpu-p4d-x4k2p"), make.claim("gpu-p4d-9vq7s")],
        "elbv2.k8s.aws/targetgroupbindings": [{"metadata": make.metadata("eagle3", NAMESPACE), "spec": {}}],
    }

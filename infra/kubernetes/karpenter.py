"""Karpenter's manifests for a node pool: NodePool (karpenter.sh/v1) and EC2NodeClass (karpenter.k8s.aws/v1).

Pure functions from settings and ids (tokens of the framework among them) to dicts; they apply nothing. Field names
and rules are those of the CRDs of Karpenter 1.14. Invariant: one pool holds every capacity type, since separate
weighted pools do not fall back to each other; a node always has an end to its drain; its disks are encrypted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.kubernetes.pool_limits import PoolLimits
from infra.settings.pools import PoolSettings

MANAGED_BY = "eagle3-kit"
POOL_LABEL = "eagle3-kit/pool"
# The device plugin's and the DCGM exporter's DaemonSets run where this label is.
GPU_LABEL = "nvidia.com/gpu.present"

_GROUP = "karpenter.k8s.aws"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeIdentity:
    """As whom nodes run: a role that Karpenter makes an instance profile for, or a profile made beforehand."""

    role: str | None = None
    """Name of the node role."""
    instance_profile: str | None = None
    """Name of the instance profile; the right one without NAT, since IAM has no VPC endpoint."""

    def __post_init__(self) -> None:
        assert (self.role is None) != (self.instance_profile is None), "exactly one of role and instance profile"


def node_class(
    pool: PoolSettings,
    *,
    identity: NodeIdentity,
    subnet_ids: Sequence[str],
    security_group_ids: Sequence[str],
    kms_key_arn: str,
    tags: Mapping[str, str],
) -> dict[str, Any]:
    """The EC2NodeClass of a pool."""
    assert subnet_ids, f"pool {pool.name}: no subnet"
    assert security_group_ids, f"pool {pool.name}: no security group"
    spec: dict[str, Any] = {
        "amiSelectorTerms": [{"alias": pool.ami_alias}],
        "subnetSelectorTerms": [{"id": subnet} for subnet in subnet_ids],
        "securityGroupSelectorTerms": [{"id": group} for group in security_group_ids],
        "blockDeviceMappings": _disks(pool, kms_key_arn),
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            # Pods get their credentials by Pod Identity and have no business at the node's metadata.
            "httpPutResponseHopLimit": 1,
        },
        "detailedMonitoring": True,
        "tags": dict(tags),
    }
    if identity.role is not None:
        spec["role"] = identity.role
    else:
        spec["instanceProfile"] = identity.instance_profile
    if pool.instance_store is not None:
        spec["instanceStorePolicy"] = pool.instance_store
    if pool.reservations:
        spec["capacityReservationSelectorTerms"] = [{"id": reservation} for reservation in pool.reservations]
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": pool.name, "labels": {"app.kubernetes.io/managed-by": MANAGED_BY}},
        "spec": spec,
    }


def node_pool(pool: PoolSettings, *, limits: PoolLimits, zones: Sequence[str]) -> dict[str, Any]:
    """The NodePool of a pool, in the zones that can launch it."""
    assert zones, f"pool {pool.name}: no zone"
    template: dict[str, Any] = {
        "nodeClassRef": {"group": _GROUP, "kind": "EC2NodeClass", "name": pool.name},
        "requirements": [
            _among("node.kubernetes.io/instance-type", pool.instance_types),
            _among("karpenter.sh/capacity-type", pool.capacity_types),
            _among("topology.kubernetes.io/zone", zones),
            _among("kubernetes.io/arch", ["amd64"]),
            _among("kubernetes.io/os", ["linux"]),
        ],
        "terminationGracePeriod": f"{pool.termination_grace_s}s",
        # An absent value would mean Karpenter's own 720 hours.
        "expireAfter": "Never" if pool.expire_after_h is None else f"{pool.expire_after_h}h",
    }
    if pool.taints:
        template["taints"] = [taint.model_dump() for taint in pool.taints]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": pool.name, "labels": {"app.kubernetes.io/managed-by": MANAGED_BY}},
        "spec": {
            "template": {
                "metadata": {"labels": {**pool.labels, POOL_LABEL: pool.name, GPU_LABEL: "true"}},
                "spec": template,
            },
            "disruption": {
                "consolidationPolicy": pool.consolidation_policy,
                "consolidateAfter": f"{pool.consolidate_after_s}s",
                # One at a time: a GPU node holds many running streams.
                "budgets": [{"nodes": "1"}],
            },
            "limits": {"nvidia.com/gpu": str(limits.gpus), "cpu": str(limits.vcpus)},
        },
    }


def manifest_list(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several manifests as one object that `kubectl apply` takes."""
    return {"apiVersion": "v1", "kind": "List", "items": [dict(manifest) for manifest in manifests]}


def _among(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _disks(pool: PoolSettings, kms_key_arn: str) -> list[dict[str, Any]]:
    data = _disk(f"{pool.disk_gib}Gi", kms_key_arn)
    if not pool.is_bottlerocket:
        return [{"deviceName": "/dev/xvda", "rootVolume": True, "ebs": data}]
    # Bottlerocket's first disk holds the system alone; images and pods' files lie on the second.
    return [
        {"deviceName": "/dev/xvda", "ebs": _disk("4Gi", kms_key_arn)},
        {"deviceName": "/dev/xvdb", "rootVolume": True, "ebs": data},
    ]


def _disk(size: str, kms_key_arn: str) -> dict[str, Any]:
    return {
        "volumeSize": size,
        "volumeType": "gp3",
        "encrypted": True,
        "kmsKeyID": kms_key_arn,
        "deleteOnTermination": True,
    }

"""What the AWS side of the cluster must have for Karpenter to work: rights of its pods, access of its nodes, endpoints.

Facts: `WiringFacts`. Knows no causes and does not reach the cluster's API: these are calls of EKS and EC2.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking

_ABSENT = ("ResourceNotFoundException",)
AGENT = "eks-pod-identity-agent"


@dataclass(frozen=True, kw_only=True, slots=True)
class WiringFacts:
    """What was seen; None where it was not."""

    cluster_status: str | None = None
    """"ACTIVE" and others; "" if there is no such cluster."""
    controller_associated: bool | None = None
    """Whether the controller's service account has a role by Pod Identity."""
    agent_status: str | None = None
    """Of the agent add-on; "" if it is missing."""
    nodes_let_in: bool | None = None
    """Whether there is an access entry for the role of Karpenter's nodes."""
    build_let_in: bool | None = None
    """Whether there is one for the role of the bootstrap."""
    sqs_reachable: bool | None = None
    """Whether the VPC has an interface endpoint of SQS, or a NAT gateway."""


class WiringCollector:
    """Reads EKS and the VPC."""

    source: str = "EKS"

    def wanted(self, context: Context) -> bool:
        """For alarms of what runs in the cluster."""
        return context.aws is not None and context.alarm in (
            "interruption-queue-stuck", "pods-unschedulable", "bootstrap-failed",
        )  # fmt: skip

    def collect(self, context: Context) -> Evidence:
        """Status, associations, add-on, access entries, ways out of the VPC."""
        looking = Looking(self.source, context)
        name = context.named("cluster")
        answer = looking.read("eks", "describe_cluster", absent=_ABSENT, name=name)
        if answer is None:
            return looking.evidence()
        if not answer:
            looking.found(f"cluster {name}", "does not exist in this account and region")
            return looking.evidence(WiringFacts(cluster_status=""))
        cluster = answer["cluster"]
        looking.found(f"cluster {name}", f"{cluster['status']}, Kubernetes {cluster.get('version', '?')}")
        entries = looking.read("eks", "list_access_entries", clusterName=name)
        vpc = cluster.get("resourcesVpcConfig", {}).get("vpcId")
        stuck = context.alarm == "interruption-queue-stuck"
        return looking.evidence(
            WiringFacts(
                cluster_status=cluster["status"],
                controller_associated=_associated(looking, name),
                agent_status=_agent(looking, name),
                nodes_let_in=_let_in(looking, entries, context.named("karpenter-node")),
                build_let_in=_let_in(looking, entries, context.named("bootstrap")),
                sqs_reachable=_way_to_sqs(looking, context, vpc) if vpc and stuck else None,
            )
        )


def _associated(looking: Looking, name: str) -> bool | None:
    answer = looking.read(
        "eks", "list_pod_identity_associations", clusterName=name, namespace="kube-system", serviceAccount="karpenter"
    )
    if answer is None:
        return None
    found = bool(answer.get("associations"))
    looking.found("Pod Identity of kube-system/karpenter", "associated" if found else "no association")
    return found


def _agent(looking: Looking, name: str) -> str | None:
    answer = looking.read("eks", "describe_addon", absent=_ABSENT, clusterName=name, addonName=AGENT)
    if answer is None:
        return None
    status = str(answer.get("addon", {}).get("status", ""))
    looking.found(f"add-on {AGENT}", status or "missing")
    return status


def _let_in(looking: Looking, entries: dict[str, object] | None, role: str) -> bool | None:
    if entries is None:
        return None
    arns = entries.get("accessEntries")
    found = isinstance(arns, list) and any(str(arn).endswith(f"/{role}") for arn in arns)
    looking.found(f"access entry of {role}", "there" if found else "missing")
    return found


def _way_to_sqs(looking: Looking, context: Context, vpc: str) -> bool | None:
    region = "" if context.aws is None else context.aws.region
    of_vpc = {"Name": "vpc-id", "Values": [vpc]}
    service = {"Name": "service-name", "Values": [f"com.amazonaws.{region}.sqs"]}
    endpoints = looking.read("ec2", "describe_vpc_endpoints", Filters=[of_vpc, service])
    gateways = looking.read("ec2", "describe_nat_gateways", Filters=[of_vpc])
    if endpoints is None or gateways is None:
        return None
    ready = any(one.get("State", "").lower() == "available" for one in endpoints.get("VpcEndpoints", []))
    nat = any(one.get("State") == "available" for one in gateways.get("NatGateways", []))
    looking.found("way to SQS", f"{'an' if ready else 'no'} interface endpoint, {'a' if nat else 'no'} NAT gateway")
    return ready or nat

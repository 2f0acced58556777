"""Causes of the cluster's alarms as AWS shows them: the interruption queue, launches, spot.

Pure. What the cluster's own API shows is in infra/diagnosis/kubernetes_rules.py; a cause that both show has one name.
"""

from __future__ import annotations

from infra.diagnosis.cluster_wiring import WiringFacts
from infra.diagnosis.evidence import Evidence, Finding, Rule
from infra.diagnosis.interruption_queue import QueueFacts
from infra.diagnosis.quotas import QuotaFacts
from infra.diagnosis.refused_calls import Refusal, RefusedFacts
from infra.diagnosis.ruling import Found, Shows, lately, none_of, seen
from infra.diagnosis.spot import SpotFacts

_CAPACITY = ("InsufficientInstanceCapacity", "InsufficientCapacity", "UnfulfillableCapacity")
_QUOTA = ("VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "InstanceLimitExceeded")
_RIGHT = ("UnauthorizedOperation", "AccessDenied", "PassRole")
_ADDRESSES = ("InsufficientFreeAddressesInSubnet",)
_SHOWN_AT_MOST = 3


def _call(refusal: Refusal) -> Finding:
    said = f"{refusal.code}: {refusal.text}"[:200]
    return Finding(source="CloudTrail", what=f"refused call {refusal.call}", value=said, when=refusal.when)


def _refused(*words: str) -> Shows:
    def shows(evidence: Evidence) -> Found:
        facts = evidence.of(RefusedFacts)
        return () if facts is None else tuple(map(_call, facts.with_code(*words)[-_SHOWN_AT_MOST:]))

    return shows


def _quota(evidence: Evidence) -> Found:
    quotas = evidence.of(QuotaFacts)
    short = () if quotas is None else quotas.no_room
    told = tuple(
        Finding(source="Service Quotas", what=name, value=f"{value:g} vCPUs, too few for one p4d or p4de")
        for name, value in short
    )
    return (*_refused(*_QUOTA)(evidence), *told)


def _nodes_kept_out(evidence: Evidence) -> Found:
    wiring = evidence.of(WiringFacts)
    if wiring is None or wiring.nodes_let_in is not False:
        return ()
    return seen("EKS", "access entry of Karpenter's nodes", "missing")


_LAUNCHES: tuple[Rule, ...] = (
    Rule(cause="the controller may not launch", certainty="shown", shows=_refused(*_RIGHT)),
    Rule(cause="a quota of the account", certainty="shown", shows=_quota),
    Rule(cause="no free address in the subnets", certainty="shown", shows=_refused(*_ADDRESSES)),
    Rule(cause="no capacity in these zones", certainty="shown", shows=_refused(*_CAPACITY)),
    Rule(cause="a node never registered", certainty="shown", shows=_nodes_kept_out),
)


def _queue_gone(evidence: Evidence) -> Found:
    queue = evidence.of(QueueFacts)
    return seen("SQS", "interruption queue", "does not exist") if queue is not None and not queue.exists else ()


def _no_association(evidence: Evidence) -> Found:
    wiring = evidence.of(WiringFacts)
    if wiring is None or wiring.controller_associated is not False:
        return ()
    return seen("EKS", "Pod Identity of kube-system/karpenter", "no association")


def _no_agent(evidence: Evidence) -> Found:
    wiring = evidence.of(WiringFacts)
    if wiring is None or wiring.agent_status is None or wiring.agent_status in ("ACTIVE", "UPDATING"):
        return ()
    return seen("EKS", "add-on eks-pod-identity-agent", wiring.agent_status or "missing")


def _no_way(evidence: Evidence) -> Found:
    wiring = evidence.of(WiringFacts)
    if wiring is None or wiring.sqs_reachable is not False:
        return ()
    return seen("EC2", "way from the VPC to SQS", "neither an interface endpoint nor a NAT gateway")


def _not_deleted(evidence: Evidence) -> Found:
    read, deleted = lately(evidence, "NumberOfMessagesReceived"), lately(evidence, "NumberOfMessagesDeleted")
    if sum(read) <= 0 or sum(deleted) > 0:
        return ()
    return seen("CloudWatch", "NumberOfMessagesReceived", f"{sum(read):g}, and none deleted")


def _nobody_reads(evidence: Evidence) -> Found:
    age = lately(evidence, "ApproximateAgeOfOldestMessage")
    asked = sum(lately(evidence, "NumberOfMessagesReceived")) + sum(lately(evidence, "NumberOfEmptyReceives"))
    if not age or asked > 0:
        return ()
    return seen("CloudWatch", "reads of the queue", f"none, and the oldest message is {age[-1]:.0f} s old")


_STUCK: tuple[Rule, ...] = (
    Rule(cause="the queue is gone", certainty="shown", shows=_queue_gone),
    Rule(cause="no Pod Identity association", certainty="shown", shows=_no_association),
    Rule(cause="the Pod Identity agent is missing", certainty="shown", shows=_no_agent),
    Rule(cause="no way from the VPC to SQS", certainty="shown", shows=_no_way),
    Rule(cause="messages are read and not deleted", certainty="shown", shows=_not_deleted),
    Rule(cause="nobody reads the queue", certainty="fits",
         shows=none_of(_nobody_reads, _queue_gone, _no_association, _no_agent, _no_way)),
)  # fmt: skip


def taken(evidence: Evidence, *endings: str, own: bool = True) -> Found:
    """Spot instances that were taken back: the cluster's, or with `own` false those of others."""
    facts = evidence.of(SpotFacts)
    if facts is None:
        return ()
    return tuple(
        Finding(source="EC2 Spot", what=f"{one.instance} ({one.kind})", value=one.code, when=one.when)
        for one in facts.taken
        if (not endings or one.code.endswith(endings)) and (facts.own is None or (one.instance in facts.own) == own)
    )[-_SHOWN_AT_MOST:]


def _experiment(evidence: Evidence) -> Found:
    return taken(evidence, "-by-experiment")


def _price(evidence: Evidence) -> Found:
    return taken(evidence, "-by-price")


def _somebody_else(evidence: Evidence) -> Found:
    facts = evidence.of(SpotFacts)
    if facts is None or facts.own is None or not facts.taken or taken(evidence):
        return ()
    return taken(evidence, own=False)


def _taken_back(evidence: Evidence) -> Found:
    return taken(evidence, "-no-capacity", "-capacity-oversubscribed", "-by-service", "-for-termination", "-for-stop")


_SPOT: tuple[Rule, ...] = (
    Rule(cause="an experiment ends them", certainty="shown", shows=_experiment),
    Rule(cause="the price is above the maximum", certainty="shown", shows=_price),
    Rule(cause="instances of somebody else", certainty="shown", shows=_somebody_else),
    Rule(cause="AWS takes spot nodes back", certainty="shown", shows=none_of(_taken_back, _experiment, _price)),
)

CLUSTER_RULES: dict[str, tuple[Rule, ...]] = {
    "pods-unschedulable": _LAUNCHES,
    "interruption-queue-stuck": _STUCK,
    "spot-interruptions": _SPOT,
}
"""By alarm."""

"""Causes of the budget's notifications.

Pure. Invariant: shares are of what Cost Explorer counts under the stack's tag; without costs only the tag is a cause.
"""

from __future__ import annotations

from infra.diagnosis.costs import CostFacts
from infra.diagnosis.evidence import Evidence, Rule
from infra.diagnosis.ruling import Found, none_of, seen

_MUCH, _SOME = 0.5, 0.25
_GPU_FAMILIES = (":p3", ":p4", ":p5", ":g4", ":g5", ":g6")


def _tag_off(evidence: Evidence) -> Found:
    costs = evidence.of(CostFacts)
    if costs is None or costs.tag_active is not False:
        return ()
    return seen("Billing", "cost allocation tag", "not active, so nothing is counted")


def _on_demand(evidence: Evidence) -> Found:
    """Nodes of the cluster on demand; an instance that SageMaker runs is another usage type."""
    costs = evidence.of(CostFacts)
    share = 0.0 if costs is None else costs.share(*(f"BoxUsage{family}" for family in _GPU_FAMILIES), without="Spot")
    return seen("Billing", "GPU instances on demand", f"{share:.0%} of the costs") if share >= _MUCH else ()


def _gpu_hours(evidence: Evidence) -> Found:
    costs = evidence.of(CostFacts)
    share = 0.0
    if costs is not None:
        share = costs.share("Host:ml.", "AsyncInf:ml.", "SpotUsage")
    return seen("Billing", "hours of GPU instances", f"{share:.0%} of the costs") if share >= _MUCH else ()


def _network(evidence: Evidence) -> Found:
    costs = evidence.of(CostFacts)
    share = 0.0 if costs is None else costs.share("NatGateway", "VpcEndpoint")
    return (
        seen("Billing", "NAT gateways and interface endpoints", f"{share:.0%} of the costs") if share >= _SOME else ()
    )


BUDGET_RULES: dict[str, tuple[Rule, ...]] = {
    "budget": (
        Rule(cause="the cost tag is not active", certainty="shown", shows=_tag_off),
        Rule(cause="GPU nodes on demand", certainty="shown", shows=_on_demand),
        Rule(cause="GPU hours beyond what is used", certainty="fits", shows=none_of(_gpu_hours, _on_demand)),
        Rule(cause="the network costs around the clock", certainty="shown", shows=_network),
    )
}
"""Of the budget."""

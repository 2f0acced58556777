"""Causes of server errors at the load balancer of the edge.

Pure. Invariant: while no target takes requests, that is the cause, whatever the load balancer counts; else the kind of
error that it counts most.
"""

from __future__ import annotations

from infra.diagnosis.cluster_rules import taken
from infra.diagnosis.evidence import Evidence, Finding, Rule
from infra.diagnosis.load_balancer import BalancerFacts
from infra.diagnosis.ruling import Found, Shows, none_of, seen

_SHOWN_AT_MOST = 3


def _targets(evidence: Evidence, *reasons: str) -> Found:
    facts = evidence.of(BalancerFacts)
    targets = () if facts is None or facts.targets is None else facts.targets
    if any(one.state == "healthy" for one in targets):
        return ()
    return tuple(
        Finding(source="Elastic Load Balancing", what=f"target {one.address}", value=f"{one.state}, {one.reason}")
        for one in targets
        if one.reason in reasons
    )[:_SHOWN_AT_MOST]


def _no_target(evidence: Evidence) -> Found:
    facts = evidence.of(BalancerFacts)
    if facts is None or facts.targets is None or any(one.state != "draining" for one in facts.targets):
        return ()
    return seen("Elastic Load Balancing", "targets", "none takes requests")


def _not_ready(evidence: Evidence) -> Found:
    return _targets(evidence, "Target.ResponseCodeMismatch", "Elb.InitialHealthChecking", "Elb.RegistrationInProgress")


def _silent(evidence: Evidence) -> Found:
    return _targets(evidence, "Target.Timeout", "Target.FailedHealthChecks")


def _counted(metric: str, *others: str) -> Shows:
    """More of this error than of each of the others, and pods that take requests."""

    def shows(evidence: Evidence) -> Found:
        facts = evidence.of(BalancerFacts)
        count = 0.0 if facts is None else facts.count(metric)
        if facts is None or count <= max(facts.count(other) for other in others):
            return ()
        return seen("Elastic Load Balancing", metric, f"{count:g}")

    return none_of(shows, _no_target, _not_ready, _silent)


_502, _504, _OWN = "HTTPCode_ELB_502_Count", "HTTPCode_ELB_504_Count", "HTTPCode_Target_5XX_Count"
EDGE_RULES: tuple[Rule, ...] = (
    Rule(cause="no pod is bound to the load balancer", certainty="shown", shows=_no_target),
    Rule(cause="replicas do not become ready", certainty="shown", shows=_not_ready),
    Rule(cause="pods do not answer", certainty="shown", shows=none_of(_silent, _not_ready)),
    Rule(cause="pods end in the middle of answers", certainty="fits", shows=_counted(_502, _504, _OWN)),
    Rule(cause="no byte for longer than the idle timeout", certainty="shown", shows=_counted(_504, _502, _OWN)),
    Rule(cause="the server itself answers 5xx", certainty="shown", shows=_counted(_OWN, _502, _504)),
    Rule(cause="nodes were taken back", certainty="fits", shows=taken),
)

"""Which causes the cluster shows, by alarm.

Knows no API: reads `ClusterFacts`. Invariant: a rule names a row of its alarm's page; of two rules that both hold, the
one whose step would also end the other comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infra.diagnosis.evidence import Certainty, Evidence, Finding, Rule
from infra.diagnosis.kubernetes_collectors import ClusterFacts
from infra.diagnosis.kubernetes_objects import SOURCE, TroubleKind

_SHOWN_AT_MOST = 5
_Because = Callable[[ClusterFacts], Sequence[Finding]]


def _rule(cause: str, because: _Because, certainty: Certainty = "shown") -> Rule:
    def shows(evidence: Evidence) -> Sequence[Finding]:
        facts = evidence.of(ClusterFacts)
        return () if facts is None else tuple(because(facts))[:_SHOWN_AT_MOST]

    return Rule(cause=cause, certainty=certainty, shows=shows)


def _any(cause: str, *kinds: TroubleKind, certainty: Certainty = "shown") -> Rule:
    return _rule(cause, lambda facts: facts.of(*kinds), certainty)


def _server(cause: str, *kinds: TroubleKind, certainty: Certainty = "shown") -> Rule:
    return _rule(cause, lambda facts: facts.of(*kinds, server=True), certainty)


def _down(cause: str, *kinds: TroubleKind, certainty: Certainty = "shown") -> Rule:
    """Where no replica is ready: what one pod suffers beside others that serve silences nobody."""
    return _rule(cause, lambda facts: () if facts.ready else facts.of(*kinds, server=True), certainty)


def _absent(facts: ClusterFacts) -> Sequence[Finding]:
    if facts.deployed is not False:
        return ()
    return (Finding(source=SOURCE, what="Deployments, StatefulSets and pods of the server", value="there are none"),)


def _unwanted(facts: ClusterFacts) -> Sequence[Finding]:
    if facts.wanted != 0:
        return ()
    return (Finding(source=SOURCE, what="replicas that the server's Deployments ask for", value="0"),)


_NOTHING = (_rule("nothing is deployed", _absent), _rule("no replica is wanted", _unwanted))
_IMAGE, _CREATE = "an image cannot be pulled", "a container cannot be made"
_MEMORY, _CRASH = "a container ends for want of memory", "a container ends again and again"
_WAITS, _UNREADY = "pods wait for a node", "replicas do not become ready"
_QUOTA, _REFUSED = "a quota of the namespace", "the cluster refuses the pods"
_CAPACITY, _LIMITS, _ACCOUNT = "no capacity in these zones", "the pool's limits are used up", "a quota of the account"

KUBERNETES_RULES: dict[str, tuple[Rule, ...]] = {
    "pods-unschedulable": (
        _any("untolerated taint", "taint"),
        _any("device plugin missing on a GPU node", "device-plugin"),
        _any("Karpenter does not run", "karpenter"),
        _any("the controller may not launch", "permission"),
        _any("the node class is not ready", "node-class"),
        _any("a node never registered", "unregistered"),
        _any(_ACCOUNT, "account-quota"),
        _any("no free address in the subnets", "addresses"),
        _any(_CAPACITY, "capacity"),
        _any(_LIMITS, "limits"),
        _any("no instance type fits", "no-fit"),
        _any("a volume is not bound", "volume"),
        _any(_QUOTA, "namespace-quota"),
        _any(_IMAGE, "image"),
        _any("a node is not ready", "node", certainty="fits"),
    ),
    "no-data": (
        *_NOTHING,
        _down(_QUOTA, "namespace-quota"),
        _down(_REFUSED, "refused"),
        _down(_IMAGE, "image"),
        _down(_CREATE, "create"),
        _down(_MEMORY, "memory"),
        _down(_CRASH, "crash"),
        _down(_WAITS, "waits", "volume", "addresses"),
        _down(_UNREADY, "unready", certainty="fits"),
    ),
    "queue-growing": (
        _any("the autoscaler sees no metrics", "no-metrics"),
        _any("autoscaling is paused", "paused"),
        _server(_MEMORY, "memory"),
        _server(_CRASH, "crash"),
        _server(_IMAGE, "image"),
        _server(_QUOTA, "namespace-quota"),
        _server(_WAITS, "waits"),
        _any("autoscaling is at its maximum", "maximum"),
        _server(_UNREADY, "unready", certainty="fits"),
    ),
    "load-balancer-5xx": (
        *_NOTHING,
        _any("no pod is bound to the load balancer", "unbound"),
        _server(_MEMORY, "memory"),
        _server(_CRASH, "crash"),
        _server(_IMAGE, "image"),
        _server(_CREATE, "create"),
        _server(_QUOTA, "namespace-quota"),
        _down(_WAITS, "waits"),
        _server(_UNREADY, "unready", certainty="fits"),
        _any("nodes were taken back", "spot", certainty="fits"),
    ),
    "spot-interruptions": (
        _any("a disruption budget blocks draining", "budget-blocks"),
        _any(_ACCOUNT, "account-quota"),
        _any(_CAPACITY, "capacity"),
        _any(_LIMITS, "limits"),
        _rule("on-demand nodes have taken over", lambda facts: facts.on_demand),
        _any("AWS takes spot nodes back", "spot", certainty="fits"),
    ),
    "interruption-queue-stuck": (_any("Karpenter does not run", "karpenter"),),
    "bootstrap-failed": (
        _any("a Helm release is stuck", "release"),
        _any(_IMAGE, "image"),
        _any(_CREATE, "create"),
        _any(_MEMORY, "memory"),
        _any(_CRASH, "crash"),
        _any(_QUOTA, "namespace-quota"),
        _any(_REFUSED, "refused"),
        _any(_WAITS, "waits"),
        _any(_UNREADY, "unready", certainty="fits"),
    ),
}
"""By alarm, the most probable first; joined in infra.diagnosis.rules with what AWS and the server show."""

"""The rules of every alarm: which causes it can have, the most probable first.

Invariant: where one source shows a fault and another its effect, the fault alone is named; rules that see one source
only keep that among themselves, and what spans sources is written here.
"""

from __future__ import annotations

from dataclasses import replace

from infra.diagnosis.acceptance_rules import ACCEPTANCE_RULES
from infra.diagnosis.bootstrap_rules import BOOTSTRAP_RULES
from infra.diagnosis.budget_rules import BUDGET_RULES
from infra.diagnosis.cluster_rules import CLUSTER_RULES
from infra.diagnosis.edge_rules import EDGE_RULES
from infra.diagnosis.endpoint_rules import ENDPOINT_RULES
from infra.diagnosis.evidence import Rule
from infra.diagnosis.kubernetes_rules import KUBERNETES_RULES
from infra.diagnosis.load_rules import LATENCY_RULES, QUEUE_RULES
from infra.diagnosis.replica_rules import MEMORY_RULES, SILENCE_RULES

_BY_ALARM: dict[str, tuple[Rule, ...]] = {
    "e2e-latency-p99": LATENCY_RULES,
    "acceptance-rate-low": ACCEPTANCE_RULES,
    "queue-growing": QUEUE_RULES,
    "gpu-memory-high": MEMORY_RULES,
    "no-data": SILENCE_RULES,
    "bootstrap-failed": BOOTSTRAP_RULES,
    "load-balancer-5xx": EDGE_RULES,
}
# What the cluster itself says comes before what AWS says of it from outside.
_PARTS = (KUBERNETES_RULES, _BY_ALARM, ENDPOINT_RULES, CLUSTER_RULES, BUDGET_RULES)

_ENGINE = frozenset({"the engine is stalled", "the engine ends again and again"})
_NO_POD = frozenset(
    {
        "nothing is deployed", "no replica is wanted", "a quota of the namespace", "the cluster refuses the pods",
        "an image cannot be pulled", "a container cannot be made", "a container ends for want of memory",
        "a container ends again and again", "pods wait for a node",
    }
)  # fmt: skip
"""Why there is no replica that could answer, as the cluster says."""
_SHORTAGE = frozenset({"autoscaling is at its maximum", "the autoscaler sees no metrics", "autoscaling is paused"})

EFFECTS: dict[tuple[str, str], frozenset[str]] = {
    ("queue-growing", "autoscaling is at its maximum"): _ENGINE,
    ("queue-growing", "replicas do not become ready"): _ENGINE,
    ("queue-growing", "more requests than this server can do"): _SHORTAGE | _NO_POD,
    ("no-data", "the server does not answer"): _NO_POD,
    ("no-data", "replicas do not become ready"): frozenset({"the engine is not ready", "the server does not answer"}),
    ("load-balancer-5xx", "no pod is bound to the load balancer"): _NO_POD,
    ("load-balancer-5xx", "replicas do not become ready"): _NO_POD,
    ("spot-interruptions", "AWS takes spot nodes back"): frozenset(
        {"an experiment ends them", "the price is above the maximum", "instances of somebody else"}
    ),
    ("interruption-queue-stuck", "nobody reads the queue"): frozenset({"Karpenter does not run"}),
    ("bootstrap-failed", "pods did not become ready"): _NO_POD,
    ("bootstrap-failed", "replicas do not become ready"): _NO_POD,
}
"""Alarm and cause to the causes of which it is the effect."""

RULES: dict[str, tuple[Rule, ...]] = {
    alarm: tuple(
        replace(rule, unless=rule.unless | EFFECTS.get((alarm, rule.cause), frozenset()))
        for part in _PARTS
        for rule in part.get(alarm, ())
    )
    for alarm in dict.fromkeys(alarm for part in _PARTS for alarm in part)
}
"""By alarm; the order is that of probability among rules of one certainty."""

"""The load balancer of the edge: what its targets are like, and which errors it counts.

Facts: `BalancerFacts`. Knows no causes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking, utc

_COUNTS = (
    "RequestCount", "HTTPCode_Target_5XX_Count", "HTTPCode_ELB_500_Count", "HTTPCode_ELB_502_Count",
    "HTTPCode_ELB_503_Count", "HTTPCode_ELB_504_Count",
)  # fmt: skip
_LONGEST_NAME = 31


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One pod as the load balancer knows it."""

    address: str
    state: str
    """"healthy", "unhealthy", "initial", "draining", "unused"."""
    reason: str = ""
    """Such as "Target.ResponseCodeMismatch"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BalancerFacts:
    """Targets, and counts of the time looked at."""

    targets: tuple[Target, ...] | None
    """None: not seen."""
    counts: dict[str, float] | None
    """By metric; None: not seen."""

    def count(self, metric: str) -> float:
        """How many; 0 where it was not seen."""
        return (self.counts or {}).get(metric, 0.0)


class BalancerCollector:
    """Reads target health and the load balancer's own counts."""

    source: str = "Elastic Load Balancing"

    def wanted(self, context: Context) -> bool:
        """For the edge's alarm."""
        return context.aws is not None and context.alarm == "load-balancer-5xx"

    def collect(self, context: Context) -> Evidence:
        """Targets and counts."""
        looking = Looking(self.source, context)
        targets = _targets(looking, context)
        counts = _counts(looking, context)
        if targets is None and counts is None:
            return looking.evidence()
        return looking.evidence(BalancerFacts(targets=targets, counts=counts))


def short_name(site: str, suffix: str) -> str:
    """A name of at most 32 characters, as infra/constructs/edge/load_balancer.py cuts it."""
    return f"{site[: _LONGEST_NAME - len(suffix)].rstrip('-')}-{suffix}"


def _targets(looking: Looking, context: Context) -> tuple[Target, ...] | None:
    name = short_name(context.site, "api")
    groups = looking.read(
        "elbv2", "describe_target_groups", absent=("TargetGroupNotFound", "TargetGroupNotFoundException"), Names=[name]
    )
    if groups is None:
        return None
    if not groups.get("TargetGroups"):
        looking.found(f"target group {name}", "does not exist in this account and region")
        return None
    health = looking.read("elbv2", "describe_target_health", TargetGroupArn=groups["TargetGroups"][0]["TargetGroupArn"])
    if health is None:
        return None
    targets = tuple(
        Target(
            address=f"{one['Target']['Id']}:{one['Target'].get('Port', '')}",
            state=one["TargetHealth"]["State"],
            reason=one["TargetHealth"].get("Reason", ""),
        )
        for one in health["TargetHealthDescriptions"]
    )
    said = ", ".join(f"{number} {state}" for state, number in Counter(one.state for one in targets).items())
    looking.found(f"target group {name}", said or "has no target")
    for one in targets:
        if one.state != "healthy":
            looking.found(f"target {one.address}", f"{one.state}, {one.reason or 'no reason given'}")
    return targets


def _counts(looking: Looking, context: Context) -> dict[str, float] | None:
    name = short_name(context.site, "edge")
    answer = looking.read("elbv2", "describe_load_balancers", absent=("LoadBalancerNotFound",), Names=[name])
    if answer is None:
        return None
    if not answer.get("LoadBalancers"):
        looking.found(f"load balancer {name}", "does not exist in this account and region")
        return None
    suffix = answer["LoadBalancers"][0]["LoadBalancerArn"].split(":loadbalancer/", 1)[-1]
    data = looking.read(
        "cloudwatch", "get_metric_data", StartTime=context.since, EndTime=context.now,
        MetricDataQueries=[
            {
                "Id": f"q{index}",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/ApplicationELB",
                        "MetricName": metric,
                        "Dimensions": [{"Name": "LoadBalancer", "Value": suffix}],
                    },
                    "Period": 60,
                    "Stat": "Sum",
                },
            }
            for index, metric in enumerate(_COUNTS)
        ],
    )  # fmt: skip
    if data is None:
        return None
    by_id = {one["Id"]: one for one in data["MetricDataResults"]}
    counts: dict[str, float] = {}
    for index, metric in enumerate(_COUNTS):
        found = by_id.get(f"q{index}", {"Values": [], "Timestamps": []})
        counts[metric] = float(sum(found["Values"]))
        last = max((utc(when) for when in found["Timestamps"]), default=None)
        looking.found(f"{metric}, Sum", f"{counts[metric]:g}", last)
    return counts

"""Spot instances that AWS took back: which, why, whose, and what spot costs now.

Facts: `SpotFacts`. Knows no causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking, utc

_TAKEN = ("instance-terminated", "instance-stopped", "instance-hibernated", "marked-for-")
_TYPES = ("p4d.24xlarge", "p4de.24xlarge")
_PRICES = timedelta(hours=6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """One instance that was taken back, or will be."""

    instance: str
    """Id."""
    kind: str
    """Instance type and zone."""
    code: str
    """Status code of the spot request, such as "instance-terminated-no-capacity"."""
    when: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SpotFacts:
    """Interruptions in the time looked at."""

    taken: tuple[Taken, ...]
    """Of the whole account, oldest first."""
    own: frozenset[str] | None
    """Instances that carry the cluster's tag, those that ended within the hour included; None: not seen."""


class SpotCollector:
    """Reads spot requests."""

    source: str = "EC2 Spot"

    def wanted(self, context: Context) -> bool:
        """Where nodes that went away are a cause."""
        return context.aws is not None and context.alarm in ("spot-interruptions", "load-balancer-5xx")

    def collect(self, context: Context) -> Evidence:
        """Requests that were ended, whose instances they were, prices."""
        looking = Looking(self.source, context)
        requests = looking.pages("ec2", "describe_spot_instance_requests", "SpotInstanceRequests")
        own = _own(looking, context)
        if context.alarm == "spot-interruptions":
            _prices(looking, context)
        if requests is None:
            return looking.evidence()
        taken = tuple(
            sorted(
                (found for one in requests if (found := _taken(one)) is not None and found.when >= context.since),
                key=lambda one: one.when,
            )
        )
        for one in taken:
            looking.found(f"spot instance {one.instance} ({one.kind})", one.code, one.when)
        if not taken:
            looking.found("spot instances taken back", "none in the time looked at")
        return looking.evidence(SpotFacts(taken=taken, own=own))


def _taken(request: dict[str, Any]) -> Taken | None:
    status = request.get("Status", {})
    code = status.get("Code", "")
    # One that its owner ended, or that was never started, was not taken back.
    if not code.startswith(_TAKEN) or code.endswith("-by-user") or "InstanceId" not in request:
        return None
    kind = request.get("LaunchSpecification", {}).get("InstanceType", "?")
    when = status.get("UpdateTime") or request["CreateTime"]
    return Taken(
        instance=request["InstanceId"],
        kind=f"{kind} in {request.get('LaunchedAvailabilityZone', '?')}",
        code=code,
        when=utc(when),
    )


def _own(looking: Looking, context: Context) -> frozenset[str] | None:
    tag = {"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{context.named('cluster')}"]}
    reservations = looking.pages("ec2", "describe_instances", "Reservations", Filters=[tag])
    if reservations is None:
        return None
    instances = [one for reservation in reservations for one in reservation["Instances"]]
    alive = [one for one in instances if one["State"]["Name"] in ("pending", "running")]
    spot = sum(one.get("InstanceLifecycle") == "spot" for one in alive)
    looking.found("instances of the cluster", f"{len(alive)} run, {spot} of them spot")
    return frozenset(one["InstanceId"] for one in instances)


def _prices(looking: Looking, context: Context) -> None:
    history = looking.pages(
        "ec2", "describe_spot_price_history", "SpotPriceHistory", InstanceTypes=list(_TYPES),
        ProductDescriptions=["Linux/UNIX"], StartTime=context.now - _PRICES, EndTime=context.now,
    )  # fmt: skip
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for one in sorted(history or (), key=lambda one: one["Timestamp"]):
        newest[one["InstanceType"], one["AvailabilityZone"]] = one
    for (kind, zone), one in sorted(newest.items()):
        looking.found(
            f"spot price of {kind} in {zone}", f"{float(one['SpotPrice']):.4g} USD an hour", utc(one["Timestamp"])
        )

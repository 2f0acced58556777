"""What an estimate assumes and the settings do not say: hours, machines, spot share, commitment, use.

Knows no prices. Invariant: every assumption is printed with the estimate (`as_text`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from infra.catalogue.price import HOURS_PER_MONTH, Purchase

Commitment = Literal["none", "1y", "3y"]

DEFAULT_SPOT_SHARE = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """A month's use, for what is billed by the GB or by the request; guesses for moderate traffic."""

    requests: float = 1_000_000
    """Requests to the model."""
    answers_gb: float = 10.0
    """GB of answers, and as much of requests."""
    endpoint_gb: float = 20.0
    """GB through the interface endpoints: images, logs, metrics."""
    nat_gb: float = 20.0
    """GB through NAT."""
    cross_zone_gb: float = 20.0
    """GB between zones inside a cluster."""
    weights_gb: float = 20.0
    """GB in the model bucket, where the settings do not say it."""
    images_gb: float = 15.0
    """GB in the registry: the runtime's image and the cluster's."""
    log_gb_per_machine: float = 1.0
    """GB that a serving machine's logs and metric records grow by."""
    record_gb: float = 1.0
    """GB of control plane's and builds' logs."""
    flow_log_gb: float = 1.0
    """GB of flow logs: rejected connections only."""
    object_events: float = 100_000
    """Reads and writes of the model bucket that CloudTrail records."""
    key_requests: float = 500_000
    """Requests to keys."""
    build_minutes: float = 60.0
    """Minutes of the mirror's and the bootstrap's builds."""
    queue_requests: float = 300_000
    """Karpenter's reads of its queue."""
    edge_capacity_units: float = 1.0
    """Capacity units of the load balancer, on average."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumptions:
    """One set of them."""

    hours_per_day: float = 24.0
    """Hours that the GPU machines run on each day of the month."""
    machines: int | None = None
    """GPU machines at once; None: the endpoint's fewest, or as many as a pool's budget allows."""
    spot_share: float | None = None
    """Share of the machines' hours that is bought as spot, 0 to 1; None: 0.7 where a pool buys spot."""
    commitment: Commitment = "none"
    """Term of the Savings Plans that cover what is not spot."""
    usage: Usage = field(default_factory=Usage)
    """Billed by use."""

    @property
    def hours(self) -> float:
        """Hours a month that the GPU machines run."""
        return HOURS_PER_MONTH * self.hours_per_day / 24

    @property
    def on_demand(self) -> Purchase:
        """How machines are bought that are not spot."""
        plans: dict[Commitment, Purchase] = {"none": "on-demand", "1y": "plan-1y", "3y": "plan-3y"}
        return plans[self.commitment]

    def as_text(self, *, spot_share: float, region: str) -> list[str]:
        """The assumptions, a line each."""
        usage = self.usage
        plan = "no commitment" if self.commitment == "none" else f"Savings Plans of {self.commitment}, no upfront"
        return [
            f"region {region}; {HOURS_PER_MONTH} hours a month; GPU machines run {self.hours_per_day:g} hours a day",
            f"spot share {spot_share:.0%}; {plan}"
            + ("; a plan is paid for all hours" if self.commitment != "none" else ""),
            f"{usage.requests:,.0f} requests, {usage.answers_gb:g} GB of answers, {usage.endpoint_gb:g} GB through "
            f"interface endpoints, {usage.log_gb_per_machine:g} GB of logs a serving machine, "
            f"{usage.images_gb:g} GB of images",
            "list prices without tax, discounts and free allowances; the first trail of an account is free, each "
            "further stack's trail is a second copy of its events (2 USD for 100,000)",
        ]

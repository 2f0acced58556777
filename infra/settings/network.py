"""Address space, zones, NAT and flow logs of a stack's VPC.

Knows neither region nor account: `check_zones` compares with the region.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from eagle3.errors import ConfigError
from infra.settings.section import Section
from infra.subnet_plan import LARGEST_PREFIX, MAX_ZONES, MIN_ZONES, smallest_prefix, zones_that_fit

PRIVATE_RANGES = tuple(IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
# Docker's own bridge on SageMaker's and on EKS's machines: addresses in it never leave the machine.
DOCKER_RANGE = IPv4Network("172.17.0.0/16")
_ZONE = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)[a-z]")


class FlowLogSettings(Section):
    """Records of the VPC's connections."""

    enabled: bool = Field(default=True, description="whether the VPC's connections are recorded")
    destination: Literal["s3", "cloudwatch"] = Field(
        default="s3",
        description="the audit archive, which takes a GB for half the price, or a log group, to be queried at once",
    )
    traffic_type: Literal["REJECT", "ACCEPT", "ALL"] = Field(
        default="REJECT",
        description="which connections; ALL adds the flows of the models' own traffic, the largest part of a bill",
    )
    aggregation_s: Literal[60, 600] = Field(
        default=600, description="seconds that one record sums up; 60 writes up to ten times as many records"
    )
    retention_days: Literal[365, 400, 545, 731, 1096, 1827, 2557] = Field(
        default=365, description="days that a log group keeps records; in S3 `audit` says how long"
    )


class NetworkSettings(Section):
    """The VPC of a stack. Without NAT nothing in it reaches the internet: AWS is reached through endpoints."""

    cidr: str = Field(
        default="10.40.0.0/16",
        description="private IPv4 range, /16 to /18 for two or three zones, /16 or /17 for more",
    )
    zone_count: int = Field(
        default=2, ge=MIN_ZONES, le=MAX_ZONES, description="availability zones, where `zones` does not name them"
    )
    zones: tuple[str, ...] | None = Field(
        default=None, description="names of availability zones, such as [us-east-1a, us-east-1c]; null: the first ones"
    )
    nat: Literal["none", "single", "per-zone"] = Field(
        default="none", description="way out to the internet: none, one gateway for all zones, or one gateway a zone"
    )
    flow_logs: FlowLogSettings = Field(default_factory=FlowLogSettings, description="records of connections")
    peer_cidrs: tuple[str, ...] = Field(
        default=(), description="ranges that this VPC will be connected to, which it must not overlap"
    )

    @property
    def zone_total(self) -> int:
        """How many zones the VPC spans."""
        return self.zone_count if self.zones is None else len(self.zones)

    @property
    def network(self) -> IPv4Network:
        """The range as a network."""
        return IPv4Network(self.cidr)

    @field_validator("cidr")
    @classmethod
    def _cidr_is_private(cls, value: str) -> str:
        network = _network(value)
        if not any(network.subnet_of(private) for private in PRIVATE_RANGES):
            raise ValueError(f"must lie in one of the private ranges {', '.join(map(str, PRIVATE_RANGES))}")
        if network.overlaps(DOCKER_RANGE):
            raise ValueError(f"must not overlap {DOCKER_RANGE}, which containers' machines use themselves")
        if network.prefixlen < LARGEST_PREFIX:
            raise ValueError(f"must be a /{LARGEST_PREFIX} or smaller, since AWS allows no larger VPC")
        return value

    @field_validator("peer_cidrs")
    @classmethod
    def _peers_are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for cidr in value:
            _network(cidr)
        return value

    @field_validator("zones")
    @classmethod
    def _zones_are_of_one_region(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        matches = [_ZONE.fullmatch(zone) for zone in value]
        regions = {match[1] if match else None for match in matches}
        if None in regions:
            raise ValueError("each must be the name of an availability zone, such as us-east-1a")
        if len(regions) > 1:
            raise ValueError("must be zones of one region")
        if len(set(value)) < len(value) or not MIN_ZONES <= len(value) <= MAX_ZONES:
            raise ValueError(f"must name {MIN_ZONES} to {MAX_ZONES} different zones")
        return value

    @model_validator(mode="after")
    def _range_fits(self) -> Self:
        network, zones = self.network, self.zone_total
        if zones_that_fit(network) < zones:
            raise ValueError(
                f"network.cidr {self.cidr} is too small for {zones} zones, each with a /20 for nodes; give a "
                f"/{smallest_prefix(zones)} or larger, or fewer zones"
            )
        for peer in self.peer_cidrs:
            if network.overlaps(_network(peer)):
                raise ValueError(
                    f"network.cidr {self.cidr} overlaps {peer} of network.peer_cidrs; give a range that nothing "
                    "connected to this VPC uses"
                )
        return self


def check_zones(network: NetworkSettings, region: str) -> None:
    """Refuse zones of another region; called when the stack's region is known."""
    foreign = [zone for zone in network.zones or () if zone.removesuffix(zone[-1]) != region]
    if foreign:
        raise ConfigError(
            f"network.zones must be zones of the region {region}; got {', '.join(foreign)}; name zones such as "
            f"{region}a, or leave network.zones out"
        )


def _network(cidr: str) -> IPv4Network:
    try:
        return IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError) as error:
        raise ValueError(f"must be an IPv4 range such as 10.40.0.0/16 ({error})") from error
    except ValueError as error:
        base = IPv4Network(cidr, strict=False)
        raise ValueError(f"must begin at the start of its range: write {base} ({error})") from error

"""The VPC of a stack: subnets in every zone, routes, and NAT where it is asked for.

Knows nothing of what runs in it. Invariants: nothing has a public address but NAT gateways; without NAT no route leaves
the VPC; the default security group lets nothing through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.settings.network import NetworkSettings
from infra.site import Site, Subnet
from infra.subnet_plan import plan_subnets


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkProps:
    """What a network is made from."""

    site: Site
    """Its zones are those of the subnets, as many as the settings say."""
    settings: NetworkSettings
    """Range and NAT."""
    cluster_name: str | None = None
    """Cluster whose Karpenter finds the private subnets, and whose load balancers go there; null: no cluster."""
    cdn_origin: bool = False
    """Whether CloudFront reaches a load balancer in the private subnets: it wants an internet gateway on the VPC as a
    sign of consent, though nothing is routed to it."""


class Network(Construct):
    """A VPC with private and intra subnets, and with public ones where there is NAT."""

    def __init__(self, scope: Any, id: str, props: NetworkProps) -> None:
        super().__init__(scope, id)
        self._site = props.site
        zones = props.site.zones
        assert len(zones) == props.settings.zone_total, f"{len(zones)} zones for {props.settings.zone_total} subnets"
        vpc = aws.Vpc(
            self,
            "Vpc",
            cidr_block=props.settings.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=self._tags("vpc"),
        )
        aws.DefaultSecurityGroup(self, "DefaultSecurityGroup", vpc_id=vpc.id, tags=self._tags("default-closed"))
        self.vpc_id: str = vpc.id
        """Token."""
        self.cidr: str = props.settings.cidr
        """As the settings say, no token."""

        plan = plan_subnets(props.settings.network, len(zones))
        found = {} if props.cluster_name is None else _discovery(props.cluster_name)
        self.private_subnets: tuple[Subnet, ...] = self._subnets("Private", plan.private, found)
        """For nodes, pods and endpoints, in the order of the zones; /20 or larger."""
        self.intra_subnets: tuple[Subnet, ...] = self._subnets("Intra", plan.intra, {})
        """For interface endpoints and a cluster's control plane; no route out of the VPC."""
        self.public_subnets: tuple[Subnet, ...] = ()
        """For NAT gateways; none without NAT."""

        self.private_route_table_ids: tuple[str, ...] = tuple(
            self._route_table(f"Private{place}", (subnet,)) for place, subnet in enumerate(self.private_subnets)
        )
        """One a zone."""
        self.intra_route_table_id: str = self._route_table("Intra", self.intra_subnets)

        gateway = None
        if props.cdn_origin or props.settings.nat != "none":
            gateway = aws.InternetGateway(self, "InternetGateway", vpc_id=vpc.id, tags=self._tags("internet"))
        self.nat_public_ips: tuple[str, ...] = ()
        """Addresses that the stack is seen from outside with."""
        if gateway is not None and props.settings.nat != "none":
            self.public_subnets = self._subnets("Public", plan.public, {})
            public = self._route_table("Public", self.public_subnets)
            out = aws.Route(
                self, "PublicOut", route_table_id=public, destination_cidr_block="0.0.0.0/0", gateway_id=gateway.id
            )
            self.nat_public_ips = self._nat(len(zones) if props.settings.nat == "per-zone" else 1, out)

    def _nat(self, gateways: int, out: Any) -> tuple[str, ...]:
        ids, addresses = [], []
        for place, subnet in enumerate(self.public_subnets[:gateways]):
            address = aws.Eip(self, f"NatAddress{place}", domain="vpc", tags=self._tags(f"nat-{place}"))
            nat = aws.NatGateway(
                self,
                f"Nat{place}",
                allocation_id=address.allocation_id,
                subnet_id=subnet.id,
                tags=self._tags(f"nat-{place}"),
                # A gateway made before its subnet has a way out fails.
                depends_on=[out],
            )
            ids.append(nat.id)
            addresses.append(address.public_ip)
        for place, table in enumerate(self.private_route_table_ids):
            aws.Route(
                self,
                f"PrivateOut{place}",
                route_table_id=table,
                destination_cidr_block="0.0.0.0/0",
                nat_gateway_id=ids[min(place, gateways - 1)],
            )
        return tuple(addresses)

    def _subnets(self, kind: str, ranges: Any, tags: Mapping[str, str]) -> tuple[Subnet, ...]:
        made = []
        for place, (zone, block) in enumerate(zip(self._site.zones, ranges, strict=True)):
            subnet = aws.Subnet(
                self,
                f"{kind}{place}",
                vpc_id=self.vpc_id,
                availability_zone=zone,
                cidr_block=str(block),
                map_public_ip_on_launch=False,
                tags={**self._tags(f"{kind.lower()}-{place}"), **tags},
            )
            made.append(Subnet(id=subnet.id, zone=zone))
        return tuple(made)

    def _route_table(self, kind: str, subnets: tuple[Subnet, ...]) -> str:
        table = aws.RouteTable(self, f"{kind}Routes", vpc_id=self.vpc_id, tags=self._tags(kind.lower()))
        for place, subnet in enumerate(subnets):
            aws.RouteTableAssociation(self, f"{kind}Routes{place}In", route_table_id=table.id, subnet_id=subnet.id)
        return str(table.id)

    def _tags(self, suffix: str) -> dict[str, str]:
        return {"Name": self._site.named(suffix)}


def _discovery(cluster_name: str) -> dict[str, str]:
    """Tags that Karpenter and the load balancer controller look for."""
    return {"karpenter.sh/discovery": cluster_name, "kubernetes.io/role/internal-elb": "1"}

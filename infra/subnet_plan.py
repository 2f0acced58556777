"""How the address space of a VPC is divided. Pure arithmetic: knows no settings, no framework and no zones by name.

The VPC is cut into blocks of equal size, an eighth of it each, but never smaller than a /20: one block a zone for nodes
and pods, and the last block for the small subnets. Invariants: subnets lie in the VPC and do not overlap; a node subnet
is a /20 or larger; a zone more, or public subnets switched on later, moves no subnet that is there already.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

MIN_ZONES = 2
MAX_ZONES = 6
# AWS allows no VPC larger than a /16.
LARGEST_PREFIX = 16
NODE_PREFIX = 20
SMALL_PREFIX = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class SubnetPlan:
    """The subnets of a VPC, each tuple in the order of the zones."""

    private: tuple[IPv4Network, ...]
    """Nodes, pods, SageMaker's network interfaces: /20 or larger."""
    public: tuple[IPv4Network, ...]
    """NAT gateways; reserved also where there are none."""
    intra: tuple[IPv4Network, ...]
    """Interface endpoints and the cluster's control plane, out of reach of nodes that use up their addresses."""


def zones_that_fit(vpc: IPv4Network) -> int:
    """How many zones a VPC of this size has room for, 6 at most; less than 2 means that it is too small."""
    if vpc.prefixlen > NODE_PREFIX:
        return 0
    blocks = 1 << (_block_prefix(vpc) - vpc.prefixlen)
    return min(blocks - 1, MAX_ZONES)


def smallest_prefix(zones: int) -> int:
    """Prefix length of the smallest VPC for so many zones: 18 for three, 17 for more."""
    return max(
        prefix for prefix in range(LARGEST_PREFIX, NODE_PREFIX + 1) if zones_that_fit(IPv4Network((0, prefix))) >= zones
    )


def plan_subnets(vpc: IPv4Network, zones: int) -> SubnetPlan:
    """Divide a VPC that has room for `zones` (see `zones_that_fit`)."""
    assert 1 <= zones <= zones_that_fit(vpc), f"{vpc} has room for {zones_that_fit(vpc)} zones, not {zones}"
    blocks = list(vpc.subnets(new_prefix=_block_prefix(vpc)))
    small = list(blocks[-1].subnets(new_prefix=SMALL_PREFIX))
    return SubnetPlan(
        private=tuple(blocks[:zones]),
        public=tuple(small[:zones]),
        intra=tuple(small[MAX_ZONES : MAX_ZONES + zones]),
    )


def _block_prefix(vpc: IPv4Network) -> int:
    return min(vpc.prefixlen + 3, NODE_PREFIX)

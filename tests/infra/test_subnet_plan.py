"""Laws of the division of a VPC."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.subnet_plan import MAX_ZONES, plan_subnets, smallest_prefix, zones_that_fit


@st.composite
def vpcs(draw):
    prefix = draw(st.integers(16, 18))
    base = draw(st.integers(0, (1 << prefix) - 1))
    return IPv4Network((base << (32 - prefix), prefix))


@st.composite
def vpcs_and_zones(draw):
    vpc = draw(vpcs())
    return vpc, draw(st.integers(2, zones_that_fit(vpc)))


def everything(plan):
    return [*plan.private, *plan.public, *plan.intra]


@given(vpcs_and_zones())
def test_subnets_are_disjoint_and_inside(case):
    """No two subnets share an address, and none leaves the VPC."""
    vpc, zones = case
    subnets = everything(plan_subnets(vpc, zones))
    assert len(subnets) == 3 * zones
    assert all(subnet.subnet_of(vpc) for subnet in subnets)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))


@given(vpcs_and_zones())
def test_node_subnets_are_large(case):
    """A node subnet is a /20 or larger: 4091 addresses for nodes and pods."""
    assert all(subnet.prefixlen <= 20 for subnet in plan_subnets(*case).private)


@given(vpcs_and_zones())
def test_a_zone_more_moves_nothing(case):
    """Subnets of the zones that are there stay where they are when a zone is added."""
    vpc, zones = case
    if zones == zones_that_fit(vpc):
        return
    before, after = plan_subnets(vpc, zones), plan_subnets(vpc, zones + 1)
    for kind in ("private", "public", "intra"):
        assert getattr(after, kind)[:zones] == getattr(before, kind)


@pytest.mark.parametrize(("prefix", "zones"), [(16, 6), (17, 6), (18, 3), (19, 1), (20, 0), (21, 0), (28, 0)])
def test_room(prefix, zones):
    """What a VPC of each size has room for."""
    assert zones_that_fit(IPv4Network((0, prefix))) == zones


@pytest.mark.parametrize(("zones", "prefix"), [(2, 18), (3, 18), (4, 17), (MAX_ZONES, 17)])
def test_smallest_prefix(zones, prefix):
    """The smallest VPC for a number of zones has room for them, and half of it has not."""
    assert smallest_prefix(zones) == prefix
    assert zones_that_fit(IPv4Network((0, prefix + 1))) < zones


def test_too_many_zones_is_a_programmers_fault():
    """Asking for zones that do not fit is an assertion: settings refuse it before."""
    with pytest.raises(AssertionError, match="room for 3 zones, not 4"):
        plan_subnets(IPv4Network("10.0.0.0/18"), 4)

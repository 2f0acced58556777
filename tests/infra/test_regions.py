"""The table of regions agrees with what it was read from."""

from __future__ import annotations

import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from eagle3.errors import ConfigError
from infra.catalogue.regions import ZONE_LETTERS, partition, zones


def test_same_zones_as_the_source():
    """Every region of the source is in the table with its zones."""
    source = {name: tuple(sorted(zone.name for zone in found)) for name, found in RegionsAndZonesBackend.zones.items()}
    assert {region: zones(region) for region in ZONE_LETTERS} == source


@pytest.mark.parametrize(
    ("region", "expected"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_partition(region, expected):
    """China and GovCloud are partitions of their own."""
    assert partition(region) == expected


def test_unknown_region_names_the_nearest():
    """A typo is refused with the region that was meant."""
    with pytest.raises(ConfigError, match="us-east-1"):
        partition("us-eats-1")

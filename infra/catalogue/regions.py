"""Regions, their partition and the letters of their zones.

Read on 2026-11-30 from EC2's DescribeAvailabilityZones as the data files of moto 5.2.5 carry it. Zone letters belong to
an account: in old regions AWS deals them anew, and us-west-1 and cn-north-1 show an account two of three.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from eagle3.errors import ConfigError

ZONE_LETTERS: Mapping[str, str] = MappingProxyType(
    {
        "af-south-1": "abc",
        "ap-east-1": "abc",
        "ap-east-2": "abc",
        "ap-northeast-1": "acd",
        "ap-northeast-2": "abcd",
        "ap-northeast-3": "abc",
        "ap-south-1": "abc",
        "ap-south-2": "abc",
        "ap-southeast-1": "abc",
        "ap-southeast-2": "abc",
        "ap-southeast-3": "abc",
        "ap-southeast-4": "abc",
        "ap-southeast-5": "abc",
        "ap-southeast-6": "abc",
        "ap-southeast-7": "abc",
        "ca-central-1": "abd",
        "ca-west-1": "abc",
        "cn-north-1": "ab",
        "cn-northwest-1": "abc",
        "eu-central-1": "abc",
        "eu-central-2": "abc",
        "eu-north-1": "abc",
        "eu-south-1": "abc",
        "eu-south-2": "abc",
        "eu-west-1": "abc",
        "eu-west-2": "abc",
        "eu-west-3": "abc",
        "il-central-1": "abc",
        "me-central-1": "abc",
        "me-south-1": "abc",
        "mx-central-1": "abc",
        "sa-east-1": "abc",
        "us-east-1": "abcdef",
        "us-east-2": "abc",
        "us-gov-east-1": "abc",
        "us-gov-west-1": "abc",
        "us-west-1": "ab",
        "us-west-2": "abcd",
    }
)


def partition(region: str) -> str:
    """ "aws", "aws-cn" or "aws-us-gov"; ConfigError names the nearest regions for one that does not exist."""
    if region not in ZONE_LETTERS:
        near = difflib.get_close_matches(region, ZONE_LETTERS, n=3, cutoff=0.0)
        raise ConfigError(f"AWS has no region {region!r}; nearest: {', '.join(near)}")
    return {"cn": "aws-cn", "us-gov": "aws-us-gov"}.get(region.rsplit("-", 2)[0], "aws")


def zones(region: str) -> tuple[str, ...]:
    """Names of a region's zones, in alphabetical order."""
    partition(region)
    return tuple(region + letter for letter in ZONE_LETTERS[region])

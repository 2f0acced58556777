"""EKS versions, how long AWS supports them, and the oldest Karpenter that runs on each.

Knows no clock: the day is passed in. Dates are the first day, in UTC, on which the support named has ended; on that day
a cluster whose upgrade policy is STANDARD is upgraded by AWS, and one with EXTENDED is billed at six times the price.
Sources: EKS user guide (Kubernetes release calendar), Karpenter compatibility matrix; read in November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType

from eagle3.errors import ConfigError

NOTICE_DAYS = 60
"""How long before the end of standard support people are told; AWS announces an end as many days ahead."""

DEFAULT_VERSION = "1.35"
"""Version of new clusters."""

DEFAULT_VERSION_OVERRIDE: str | None = None
"""Why DEFAULT_VERSION may stay although its standard support ends within NOTICE_DAYS; a sentence, or None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EksVersion:
    """One Kubernetes version on EKS."""

    released: date
    """Day on which EKS offered it."""
    standard_until: date
    """End of standard support."""
    extended_until: date
    """End of extended support; EKS creates no such cluster afterwards and upgrades what is left."""
    karpenter_from: tuple[int, int]
    """Oldest minor release of Karpenter that supports it."""


EKS_VERSIONS: Mapping[str, EksVersion] = MappingProxyType(
    {
        "1.31": EksVersion(
            released=date(2024, 9, 26),
            standard_until=date(2025, 11, 26),
            extended_until=date(2026, 11, 26),
            karpenter_from=(1, 0),
        ),
        "1.32": EksVersion(
            released=date(2025, 1, 23),
            standard_until=date(2026, 3, 23),
            extended_until=date(2027, 3, 23),
            karpenter_from=(1, 2),
        ),
        "1.33": EksVersion(
            released=date(2025, 5, 29),
            standard_until=date(2026, 7, 29),
            extended_until=date(2027, 7, 29),
            karpenter_from=(1, 5),
        ),
        "1.34": EksVersion(
            released=date(2025, 10, 2),
            standard_until=date(2026, 12, 2),
            extended_until=date(2027, 12, 2),
            karpenter_from=(1, 6),
        ),
        "1.35": EksVersion(
            released=date(2026, 1, 27),
            standard_until=date(2027, 3, 27),
            extended_until=date(2028, 3, 27),
            karpenter_from=(1, 9),
        ),
        "1.36": EksVersion(
            released=date(2026, 6, 2),
            standard_until=date(2027, 8, 2),
            extended_until=date(2028, 8, 2),
            karpenter_from=(1, 13),
        ),
    }
)


def days_left(version: str, today: date) -> int:
    """Days of standard support that a known version has left; 0 or less: none."""
    return (_known(version, today).standard_until - today).days


def check_version(version: str, today: date, override: str | None = None) -> None:
    """Raise ConfigError for an unknown version, and for one out of standard support unless `override` says why.

    Nothing permits a version out of extended support: EKS creates no such cluster.
    """
    entry = _known(version, today)
    if today >= entry.extended_until:
        raise ConfigError(
            f"kubernetes_version: all support of EKS {version} ended on {entry.extended_until}; "
            f"allowed are {_allowed(today)}"
        )
    if today >= entry.standard_until and override is None:
        raise ConfigError(
            f"kubernetes_version: standard support of EKS {version} ended on {entry.standard_until}; allowed are "
            f"{_allowed(today)}, or set calendar_override to the reason for paying for extended support"
        )


def support_notice(version: str, today: date, override: str | None = None) -> str | None:
    """What to tell people about a version that passes `check_version`; None while its end is far."""
    left = days_left(version, today)
    if left >= NOTICE_DAYS:
        return None
    end = EKS_VERSIONS[version].standard_until
    when = f"ends on {end}, in {left} days" if left > 0 else f"ended on {end}"
    if override is None:
        return (
            f"standard support of EKS {version} {when}; AWS then upgrades the cluster by itself: set "
            f"kubernetes_version to one of {_allowed(today)}"
        )
    return (
        f"standard support of EKS {version} {when}; it is kept, with extended support at six times the price of the "
        f"control plane, because: {override}"
    )


def check_karpenter(kubernetes_version: str, karpenter_version: str) -> None:
    """Raise ConfigError for a release of Karpenter that does not support a known EKS version."""
    match = re.fullmatch(r"v?(\d+)\.(\d+)\.(\d+)", karpenter_version)
    if match is None:
        raise ConfigError(f"a release of Karpenter is MAJOR.MINOR.PATCH, such as 1.14.0; got {karpenter_version!r}")
    needed = EKS_VERSIONS[kubernetes_version].karpenter_from
    if (int(match[1]), int(match[2])) < needed:
        raise ConfigError(
            f"EKS {kubernetes_version} needs Karpenter {needed[0]}.{needed[1]} or newer; got {karpenter_version}: "
            "raise the release of Karpenter, or choose an older kubernetes_version"
        )


def _known(version: str, today: date) -> EksVersion:
    entry = EKS_VERSIONS.get(version)
    if entry is None or today < entry.released:
        raise ConfigError(f"kubernetes_version: EKS has no version {version!r}; allowed are {_allowed(today)}")
    return entry


def _allowed(today: date) -> str:
    return ", ".join(
        version for version, entry in EKS_VERSIONS.items() if entry.released <= today < entry.standard_until
    )

"""The calendar of EKS versions: what is refused, what is said, and when the pinned version has to move."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from eagle3.errors import ConfigError
from infra.catalogue.eks_calendar import (
    DEFAULT_VERSION,
    DEFAULT_VERSION_OVERRIDE,
    EKS_VERSIONS,
    NOTICE_DAYS,
    check_karpenter,
    check_version,
    days_left,
    support_notice,
)

TODAY = date(2026, 11, 30)


def test_default_version_has_sixty_days_of_standard_support():
    """Fails 60 days before the default version costs extra: move DEFAULT_VERSION, or write down why it stays."""
    left = days_left(DEFAULT_VERSION, date.today())
    stays = DEFAULT_VERSION_OVERRIDE is not None and len(DEFAULT_VERSION_OVERRIDE.split()) >= 4
    assert left >= NOTICE_DAYS or stays, (
        f"EKS {DEFAULT_VERSION} leaves standard support in {left} days: raise DEFAULT_VERSION in "
        "infra/catalogue/eks_calendar.py, or set DEFAULT_VERSION_OVERRIDE to a reason"
    )


def test_dates_are_in_order():
    """Support lasts 14 months and then 12, as AWS states; versions follow each other."""
    for entry in EKS_VERSIONS.values():
        assert 415 <= (entry.standard_until - entry.released).days <= 435
        assert 365 <= (entry.extended_until - entry.standard_until).days <= 366
    releases = [entry.released for entry in EKS_VERSIONS.values()]
    assert releases == sorted(releases)


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
def test_versions_in_standard_support_pass(version):
    """What AWS supports today is accepted, on its last day of support too."""
    check_version(version, TODAY)
    check_version(version, EKS_VERSIONS[version].standard_until - timedelta(days=1))


def test_version_is_refused_on_the_day_its_support_ends():
    """Billing of extended support starts with that day; the error names what is allowed and what to do."""
    end = EKS_VERSIONS["1.35"].standard_until
    with pytest.raises(ConfigError, match=r"2027-03-27; allowed are 1\.36, or set calendar_override"):
        check_version("1.35", end)


@pytest.mark.parametrize("version", ["1.32", "1.33"])
def test_reason_permits_a_version_in_extended_support(version):
    """A version out of standard support passes with a reason only."""
    with pytest.raises(ConfigError, match=r"allowed are 1\.34, 1\.35, 1\.36"):
        check_version(version, TODAY)
    check_version(version, TODAY, "the device plugin is not certified for 1.34 yet")


def test_nothing_permits_a_version_without_any_support():
    """EKS creates no cluster of a version out of extended support, whatever the reason."""
    with pytest.raises(ConfigError, match=r"all support of EKS 1\.31 ended on 2026-11-26"):
        check_version("1.31", TODAY, "we like it")


@pytest.mark.parametrize(("version", "today"), [("1.99", TODAY), ("1.36", date(2026, 6, 1)), ("1.3", TODAY)])
def test_unknown_version_is_refused(version, today):
    """A version that EKS does not have, or did not have yet, is refused with the allowed ones named."""
    with pytest.raises(ConfigError, match=r"EKS has no version .*allowed are 1\.3"):
        check_version(version, today)


def test_notice_begins_sixty_days_before_the_end():
    """People are told from 60 days before the end on, with the remedy; not a day earlier."""
    end = EKS_VERSIONS["1.35"].standard_until
    assert support_notice("1.35", end - timedelta(days=60)) is None
    said = support_notice("1.35", end - timedelta(days=59))
    assert said is not None
    assert "in 59 days" in said
    assert "set kubernetes_version to one of" in said


def test_notice_repeats_the_reason():
    """An override is printed with what it costs."""
    said = support_notice("1.33", TODAY, "waiting for a driver")
    assert said is not None
    assert said.startswith("standard support of EKS 1.33 ended on 2026-07-29")
    assert "six times the price" in said
    assert said.endswith("waiting for a driver")


@pytest.mark.parametrize(("eks", "karpenter"), [("1.35", "1.9.0"), ("1.35", "1.14.0"), ("1.36", "v1.13.0")])
def test_karpenter_that_runs_on_the_version_passes(eks, karpenter):
    """Releases that support the version are accepted."""
    check_karpenter(eks, karpenter)


@pytest.mark.parametrize(("eks", "karpenter"), [("1.35", "1.8.2"), ("1.36", "1.12.4"), ("1.33", "0.37.0")])
def test_karpenter_too_old_for_the_version_is_refused(eks, karpenter):
    """A release that does not know the version is refused, with the oldest that does."""
    with pytest.raises(ConfigError, match=rf"EKS {eks} needs Karpenter 1\.\d+ or newer; got {karpenter}"):
        check_karpenter(eks, karpenter)


@pytest.mark.parametrize("release", ["1.14", "latest", "1.14.0-rc.1", ""])
def test_karpenter_release_is_exact(release):
    """A release is three numbers, so that the same one is installed tomorrow."""
    with pytest.raises(ConfigError, match=r"MAJOR\.MINOR\.PATCH"):
        check_karpenter("1.35", release)

"""Dollars for a million output tokens, from a month's cost and a measured throughput."""

from __future__ import annotations

SECONDS_PER_HOUR = 3600


def usd_per_million_tokens(usd_per_month: float, tokens_per_second: float, hours_per_month: float) -> float:
    """`tokens_per_second`: output tokens of the whole deployment; `hours_per_month`: hours at that rate."""
    assert tokens_per_second > 0
    assert hours_per_month > 0
    return usd_per_month / (tokens_per_second * SECONDS_PER_HOUR * hours_per_month) * 1e6

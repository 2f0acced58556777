"""Observations in bounded memory."""

from __future__ import annotations

import random

from eagle3.metrics.sample import Sample


def test_keeps_everything_up_to_its_capacity():
    """Nothing is lost or reordered while there is room."""
    sample = Sample(5, random.Random(0))
    for value in (3.0, 1.0, 2.0):
        sample.add(value)
    assert sample.take() == (3.0, 1.0, 2.0)
    assert sample.take() == ()


def test_quantiles_survive_sampling():
    """Of 50,000 rising observations, 2,000 are kept, and their median and 99th percentile are right within 3 %."""
    sample = Sample(2000, random.Random(1))
    for value in range(50_000):
        sample.add(float(value))
    kept = sorted(sample.take())
    assert len(kept) == 2000
    assert abs(kept[1000] / 25_000 - 1) < 0.03
    assert abs(kept[1980] / 49_500 - 1) < 0.03


def test_no_capacity_keeps_nothing():
    """Without a reader nothing is kept."""
    sample = Sample(0, random.Random(0))
    sample.add(1.0)
    assert sample.take() == ()

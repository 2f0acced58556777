"""R17: seeds of the answers of one request."""

from __future__ import annotations

import itertools

import pytest
import torch

from eagle3.sampling.params import sampling_params
from eagle3.sampling.seeds import derived_seed, generator_for


def first_numbers(seed, index=0):
    return tuple(
        torch.rand(3, dtype=torch.float64, generator=generator_for(sampling_params(seed=seed), index)).tolist()
    )


def test_the_first_answer_keeps_the_seed():
    """Index 0 is the seed itself, so that n = 1 and the first of n agree."""
    for seed in (0, 5, 2**32, 2**63 - 1):
        assert derived_seed(seed, 0) == seed
    reference = torch.Generator().manual_seed(5)
    assert first_numbers(5) == tuple(torch.rand(3, dtype=torch.float64, generator=reference).tolist())


@pytest.mark.parametrize(
    ("seed", "index", "expected"),
    [
        (0, 1, 8964403071628134235),
        (5, 1, 8551639408602539015),
        (5, 2, 8484557958765423314),
        (2**63 - 1, 127, 948137753244632928),
    ],
)
def test_derived_seeds_stay_what_they_are(seed, index, expected):
    """The map is part of the contract: a seed noted down gives the same text in every release."""
    assert derived_seed(seed, index) == expected


def test_streams_of_seeds_stay_what_they_are():
    """The first uniform numbers of three streams, which no platform changes."""
    assert first_numbers(5) == (0.6420150066280941, 0.2597579151763153, 0.36082761942715424)
    assert first_numbers(5, 1) == (0.9341534344972784, 0.9515195901864686, 0.18117019379253863)
    assert first_numbers(2**40 + 5) == (0.7508998151926615, 0.4572859705956289, 0.04004418245903951)


def test_seeds_of_a_grid_are_distinct():
    """Neighbouring seeds, powers of two and all indices: no answer shares a seed with another one."""
    seeds = {*range(200), *(2**power + step for power in range(8, 63) for step in (-1, 0, 1)), 2**63 - 1}
    derived = [derived_seed(seed, index) for seed, index in itertools.product(sorted(seeds), range(16))]
    assert len(set(derived)) == len(derived)
    assert all(0 <= seed < 2**63 for seed in derived)


def test_streams_of_a_grid_are_distinct():
    """The same for the streams: torch itself looks at the lower 32 bits of a seed only."""
    seeds = [0, 1, 5, 6, 2**31, 2**32, 2**32 + 5, 2**33 + 5, 2**62 + 5, 2**63 - 1]
    streams = [first_numbers(seed, index) for seed, index in itertools.product(seeds, range(4))]
    assert len(set(streams)) == len(streams)


def test_the_second_answer_of_a_seed_is_not_the_first_of_the_next():
    """Sums of seed and index would repeat themselves over requests."""
    assert first_numbers(5, 1) != first_numbers(6, 0)
    assert first_numbers(5, 2) != first_numbers(6, 1)


def test_same_seed_same_stream_and_no_seed_another_each_time():
    """A seed repeats its stream; without one two answers differ."""
    assert first_numbers(7, 3) == first_numbers(7, 3)
    assert first_numbers(None) != first_numbers(None)


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (2**63, 0), (0, -1)])
def test_out_of_range_is_a_programmers_fault(seed, index):
    """Parameters check a seed at the edge; here it is asserted."""
    with pytest.raises(AssertionError, match="out of range"):
        derived_seed(seed, index)

"""Random streams of answers: which seed belongs to which of the `n` answers of a request.

The map is fixed: it is the same on every platform and in every release, so that a seed noted down once gives the
same stream for good. Knows no tokens.
"""

from __future__ import annotations

import hashlib

import torch

from eagle3.sampling.params import SamplingParams

# What torch's CPU generator takes in of a seed: of 5 and 5 + 2**32 it makes one stream.
_TORCH_SEEDS = 2**32


def derived_seed(seed: int, index: int) -> int:
    """Seed of the answer number `index`, 0 to 2**63 - 1: the first keeps `seed`, others hash both by BLAKE2b.

    A sum would make the second answer of seed 5 the first of seed 6.
    """
    assert 0 <= seed < 2**63, "seed out of range"
    assert 0 <= index < 2**63, "index out of range"
    if index == 0:
        return seed
    return _hashed(seed, index) >> 1


def generator_for(params: SamplingParams, index: int) -> torch.Generator:
    """The random stream of the answer number `index`; another one each time where `params` has no seed."""
    generator = torch.Generator()
    if params.seed is None:
        generator.seed()
        return generator
    seed = derived_seed(params.seed, index)
    generator.manual_seed(seed if seed < _TORCH_SEEDS else _hashed(seed) % _TORCH_SEEDS)
    return generator


def _hashed(*numbers: int) -> int:
    data = b"".join(number.to_bytes(8, "big") for number in numbers)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, person=b"eagle3.seed").digest(), "big")

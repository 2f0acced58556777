"""The law of verification, worked out exactly instead of sampled."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import verify

VOCAB = 3


@st.composite
def trees(draw):
    """A random tree of distinct siblings, at most three levels deep."""
    paths = draw(st.sets(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=3).map(tuple), max_size=10))
    closed = {path[:end] for path in paths for end in range(1, len(path) + 1)}
    ordered = [(), *sorted(closed, key=lambda path: (len(path), path))]
    index = {path: node for node, path in enumerate(ordered)}
    return DraftTree(
        token_ids=(0, *(path[-1] for path in ordered[1:])),
        parents=(0, *(index[path[:-1]] for path in ordered[1:])),
        scores=(0.0,) * len(ordered),
    )


def outcome(tree, choices):
    """What is emitted if the target's draws are `choices`, and how many of them were used."""
    used = iter(choices)
    return verify(tree, lambda _node, _accepted: next(used)).emitted_ids


@settings(deadline=None, max_examples=60)
@given(tree=trees(), seed=st.integers(0, 2**32))
def test_emitted_tokens_have_the_law_of_the_target(tree, seed):
    """For any tree, the emitted text has the target's probability, conditional on its prefix, at every token.

    Every sequence of draws is enumerated; whatever was emitted must be a prefix of the draws that plain decoding
    would have made, so the law of any first tokens is the product of the target's own conditionals.
    """
    rng = np.random.default_rng(seed)
    target: defaultdict[tuple[int, ...], Any] = defaultdict(lambda: rng.dirichlet(np.ones(VOCAB)))
    law: defaultdict[tuple[int, ...], float] = defaultdict(float)
    mass = 0.0
    for draws in itertools.product(range(VOCAB), repeat=4):
        chance = np.prod([target[draws[:end]][token] for end, token in enumerate(draws)])
        emitted = outcome(tree, draws)
        assert emitted == draws[: len(emitted)]
        law[emitted] += chance
        mass += chance
    assert abs(mass - 1.0) < 1e-12
    for emitted, chance in law.items():
        product = np.prod([target[emitted[:end]][token] for end, token in enumerate(emitted)])
        assert abs(chance - product) < 1e-12


@settings(deadline=None, max_examples=60)
@given(tree=trees(), draws=st.lists(st.integers(0, VOCAB - 1), min_size=4, max_size=4))
def test_longest_drafted_prefix_is_accepted(tree, draws):
    """The accepted tokens are the longest beginning of the draws that is a path of the tree: never fewer."""
    paths = {()}
    for node in range(1, len(tree)):
        walker, path = node, []
        while walker:
            path.append(tree.token_ids[walker])
            walker = tree.parents[walker]
        paths.add(tuple(reversed(path)))
    longest = next(end for end in range(3, -1, -1) if tuple(draws[:end]) in paths)
    assert outcome(tree, draws) == tuple(draws[: longest + 1])

"""One verification of a large tree tells what every smaller one would have accepted."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import grow_tree
from eagle3.config.speculation import Speculation
from eagle3.engine.acceptance import AcceptanceEstimate
from eagle3.engine.policy import smaller_shapes
from eagle3.tree.chain import Chain
from eagle3.verify.verification import verify

VOCAB = 8


def log_probs(seed, path):
    """A draft as a fixed random function of the path, without ties."""
    logits = np.random.default_rng([seed, len(path), *path]).normal(0, 2, VOCAB)
    return torch.tensor(logits, dtype=torch.float64).log_softmax(-1)


def grow(seed, shape, chain=None):
    rows: list[tuple[int, ...]] = [()]

    def expand(frontier):
        nonlocal rows
        rows = [(*rows[row], token) for row, token in zip(frontier.parent_rows, frontier.token_ids, strict=True)]
        return torch.stack([log_probs(seed, path) for path in rows])

    return grow_tree(shape, 0, log_probs(seed, ()), torch.arange(VOCAB), expand, chain)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    full=st.builds(Speculation, depth=st.integers(1, 5), top_k=st.integers(1, 6), nodes=st.integers(1, 24)),
    ranks=st.lists(st.integers(0, 2), min_size=25, max_size=25),
    guess=st.none() | st.lists(st.floats(-0.7, -0.001), min_size=1, max_size=20),
    right=st.integers(0, 20),
)
def test_estimate_is_what_growing_and_verifying_the_smaller_tree_gives(seed, full, ranks, guess, right):
    """For any draft and any target: the count that each shape is told equals really drafting and verifying it.

    So it does with a grafted chain that is right for a while, and deeper than the draft's levels.
    """
    # The target continues with the draft's first, second or third choice, so that paths are deep and shallow.
    text: list[int] = []
    for rank in ranks:
        text.append(int(log_probs(seed, tuple(text)).argsort(descending=True)[rank]))

    def choose(_node, accepted):
        return text[len(accepted)]

    chain = None
    if guess is not None:
        tokens = [text[place] if place < right else (text[place] + 1) % VOCAB for place in range(len(guess))]
        chain = Chain(tuple(tokens), tuple(guess))
    shapes = smaller_shapes(full)
    estimate = AcceptanceEstimate(shapes)
    large = grow(seed, full, chain)
    before = [estimate.tau(shape) for shape in shapes]
    estimate.observe(full, large, verify(large, choose))
    for shape, old in zip(shapes, before, strict=True):
        emitted = len(verify(grow(seed, shape, chain), choose).emitted_ids)
        # One observation beside the first guess of ten cycles.
        told = old + (estimate.tau(shape) - old) * 11
        assert abs(told - emitted) < 1e-9, shape


@given(full=st.builds(Speculation, depth=st.integers(1, 32), top_k=st.integers(1, 64), nodes=st.integers(1, 1024)))
def test_smaller_shapes_fall_to_one_node(full):
    """From the full shape down to a single node, each smaller than the one before and within the full one."""
    shapes = smaller_shapes(full)
    assert shapes[0].nodes == full.nodes
    assert shapes[-1].nodes == 1
    sizes = [shape.nodes for shape in shapes]
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(shapes) <= 20
    for shape in shapes:
        assert shape.depth <= min(full.depth, shape.nodes)
        assert shape.top_k <= min(full.top_k, shape.nodes)
        assert shape.reserved_slots <= full.reserved_slots

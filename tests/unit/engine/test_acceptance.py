"""What smaller trees would have accepted: known trees, and what the estimate makes of them."""

from __future__ import annotations

import pytest

from eagle3.config.speculation import Speculation
from eagle3.engine.acceptance import AcceptanceEstimate
from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import verify

FULL = Speculation(depth=3, top_k=2, nodes=4)
SMALL = Speculation(depth=2, top_k=2, nodes=2)
ONE = Speculation(depth=1, top_k=1, nodes=1)
# 9 -> 1 -> 3 -> 4, and 9 -> 2; by score: 1, 2, then 3, then 4.
TREE = DraftTree(token_ids=(9, 1, 2, 3, 4), parents=(0, 0, 0, 1, 3), scores=(0.0, -0.5, -1.0, -1.5, -2.0))


def outcome(*text):
    """The verification of a target that continues with `text`."""
    return verify(TREE, lambda _node, accepted: text[len(accepted)] if len(accepted) < len(text) else 63)


def settled(*text, cycles=3000):
    estimate = AcceptanceEstimate([FULL, SMALL, ONE])
    for _ in range(cycles):
        estimate.observe(FULL, TREE, outcome(*text))
    return [estimate.tau(shape) for shape in (FULL, SMALL, ONE)]


@pytest.mark.parametrize(
    ("text", "taus"),
    [
        ((1, 3, 4), [4.0, 2.0, 2.0]),  # accepts all: node 3 has rank 3, so two nodes stop before it
        ((1, 3, 0), [3.0, 2.0, 2.0]),
        ((2,), [2.0, 2.0, 1.0]),
        ((0,), [1.0, 1.0, 1.0]),  # accepts none
    ],
)
def test_each_shape_is_told_what_it_would_have_accepted(text, taus):
    """Only the best nodes of a tree are in the smaller one: its path ends where the next node is not among them."""
    assert settled(*text) == pytest.approx(taus, abs=0.01)


def test_the_first_guess_gives_way_to_what_is_seen():
    """Before any cycle larger trees are expected to accept more; a hundred cycles outweigh that."""
    guesses = AcceptanceEstimate([FULL, SMALL, ONE])
    assert guesses.tau(FULL) > guesses.tau(SMALL) > guesses.tau(ONE) > 1.0
    assert settled(0, cycles=100) == pytest.approx([1.0] * 3, abs=0.15)


def test_a_small_tree_says_nothing_of_a_larger_one():
    """What was not drafted cannot be judged: the larger shapes keep their estimate."""
    estimate = AcceptanceEstimate([FULL, SMALL, ONE])
    before = estimate.tau(FULL), estimate.tau(SMALL)
    tree = DraftTree(token_ids=(9, 1), parents=(0, 0), scores=(0.0, -0.5))
    for _ in range(100):
        estimate.observe(ONE, tree, verify(tree, lambda _node, _accepted: 63))
    assert (estimate.tau(FULL), estimate.tau(SMALL)) == before
    assert estimate.tau(ONE) < 1.2


def test_the_estimate_follows_a_change_of_texts():
    """After a long time of one kind of text, as much of another one tells: a thousand cycles change the estimate."""
    estimate = AcceptanceEstimate([FULL])
    for _ in range(5000):
        estimate.observe(FULL, TREE, outcome(1, 3, 4))
    for _ in range(1000):
        estimate.observe(FULL, TREE, outcome(0))
    assert estimate.tau(FULL) < 1.2


def test_left_out_nodes_are_no_bias():
    """Under a threshold the shapes are told what they would accept of the trees they would have: here the same."""
    shapes = [shape.model_copy(update={"min_probability": 0.3}) for shape in (FULL, SMALL, ONE)]
    estimate = AcceptanceEstimate(shapes)
    pruned = DraftTree(token_ids=(9, 1, 2), parents=(0, 0, 0), scores=(0.0, -0.5, -1.0))
    root = DraftTree.root_only(9)
    for turn in range(4000):
        tree = pruned if turn % 2 else root
        estimate.observe(shapes[0], tree, verify(tree, lambda _node, accepted: (2, 3)[len(accepted)]))
    assert [estimate.tau(shape) for shape in shapes] == pytest.approx([1.5, 1.5, 1.0], abs=0.01)

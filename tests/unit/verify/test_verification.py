"""Accepting a path of a draft tree, with scripted choices."""

from __future__ import annotations

import pytest

from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import verify

#        9
#      /   \
#     1     2
#    / \     \
#   3   4     1
#       |
#       5
TREE = DraftTree(token_ids=(9, 1, 2, 3, 4, 1, 5), parents=(0, 0, 0, 1, 1, 2, 4), scores=(0.0,) * 7)


class ScriptedChoice:
    """Chooses tokens in order and keeps what it was asked."""

    def __init__(self, *token_ids):
        self.left = list(token_ids)
        self.asked = []

    def __call__(self, node, accepted):
        self.asked.append((node, tuple(accepted)))
        return self.left.pop(0)


def test_accepts_all():
    """When every choice is drafted the whole branch is accepted, and the bonus comes after its leaf."""
    choose = ScriptedChoice(1, 4, 5, 8)
    result = verify(TREE, choose)
    assert result.path == (0, 1, 4, 6)
    assert result.accepted_ids == (1, 4, 5)
    assert result.bonus_id == 8
    assert result.num_accepted == 3
    assert result.emitted_ids == (1, 4, 5, 8)
    assert choose.asked == [(0, ()), (1, (1,)), (4, (1, 4)), (6, (1, 4, 5))]


def test_accepts_none():
    """When the first choice was not drafted, it alone is emitted and nothing below is looked at."""
    choose = ScriptedChoice(7)
    result = verify(TREE, choose)
    assert result.path == (0,)
    assert result.accepted_ids == ()
    assert result.emitted_ids == (7,)
    assert result.num_accepted == 0
    assert choose.asked == [(0, ())]


@pytest.mark.parametrize(
    ("choices", "path"),
    [((1, 9), (0, 1)), ((2, 3), (0, 2)), ((2, 1, 1), (0, 2, 5)), ((1, 3, 4), (0, 1, 3)), ((1, 5), (0, 1))],
)
def test_accepts_some(choices, path):
    """Acceptance ends at the first choice that the node reached has no child for, though cousins carry it."""
    result = verify(TREE, ScriptedChoice(*choices))
    assert result.path == path
    assert result.emitted_ids == choices
    assert result.bonus_id == choices[-1]


def test_bare_root_emits_one_token():
    """Plain decoding is the verification of a bare root: one choice, one token."""
    result = verify(DraftTree.root_only(3), ScriptedChoice(3))
    assert result.path == (0,)
    assert result.emitted_ids == (3,)
    assert result.num_accepted == 0

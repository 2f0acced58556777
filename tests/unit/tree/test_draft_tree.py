"""The draft tree: depths, children, ancestor masks, and what it refuses."""

from __future__ import annotations

import pytest
import torch

from eagle3.tree.draft_tree import DraftTree, ancestor_mask


def tree(token_ids, parents):
    return DraftTree(token_ids=tuple(token_ids), parents=tuple(parents), scores=(0.0,) * len(token_ids))


def test_depth_counts_edges_to_the_root():
    """The depth of a node is its distance from the root, in whatever order branches were listed."""
    assert tree([9, 1, 2, 3, 4], [0, 0, 0, 2, 3]).depths == (0, 1, 1, 2, 3)


def test_child_finds_only_its_own_children():
    """The same token below two parents is two nodes, and a token that is no child gives None."""
    drafted = tree([9, 1, 2, 1, 1], [0, 0, 0, 1, 2])
    assert drafted.child(0, 1) == 1
    assert drafted.child(1, 1) == 3
    assert drafted.child(2, 1) == 4
    assert drafted.child(0, 9) is None
    assert drafted.child(4, 1) is None
    assert drafted.tokens([0, 2, 4]) == [9, 2, 1]


def test_root_only_tree_drafts_nothing():
    """A bare root has one node and no children: the cycle of plain decoding."""
    bare = DraftTree.root_only(5)
    assert len(bare) == 1
    assert bare.token_ids == (5,)
    assert bare.child(0, 5) is None


def test_siblings_with_one_token_are_refused():
    """Two children of a node with the same token are a programmer's fault."""
    with pytest.raises(AssertionError, match="siblings"):
        tree([9, 1, 1], [0, 0, 0])


def test_parent_after_its_child_is_refused():
    """A parent index that is not smaller than the node's is a programmer's fault."""
    with pytest.raises(AssertionError, match="parents"):
        tree([9, 1, 2], [0, 2, 0])


def test_ancestor_mask_of_two_branches():
    """A node sees itself and its ancestors, and nothing of a sibling's branch."""
    expected = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)
    assert torch.equal(ancestor_mask([0, 0, 0, 2]), expected)


def test_ranks_order_nodes_by_score():
    """The root has rank 0, the best node 1, and of equals the earlier one comes first."""
    drafted = DraftTree(token_ids=(9, 1, 2, 3, 4), parents=(0, 0, 0, 1, 2), scores=(0.0, -2.0, -1.0, -2.5, -2.0))
    assert drafted.ranks() == [0, 2, 1, 4, 3]
    assert DraftTree.root_only(5).ranks() == [0]

"""Growing a tree: shape, ties, and the mapping from draft ids to target ids."""

from __future__ import annotations

import torch

from builders import grow_tree
from eagle3.config.speculation import Speculation
from eagle3.tree.growth import Frontier

IDENTITY = torch.arange(4)
# Token 2 is the most probable after anything, then 0, 3 and 1.
PREFERENCE = torch.tensor([0.3, 0.05, 0.5, 0.15]).log()


def same_everywhere(frontier: Frontier):
    return PREFERENCE.repeat(len(frontier.token_ids), 1)


def grow(expand=same_everywhere, root_log_probs=PREFERENCE, target_ids=IDENTITY, **shape):
    return grow_tree(Speculation(**shape), 9, root_log_probs, target_ids, expand)


def test_one_child_per_node_makes_a_chain():
    """K = 1 gives one node per level, each the most probable child of the one before."""
    tree = grow(depth=4, top_k=1, nodes=10)
    assert tree.parents == (0, 0, 1, 2, 3)
    assert tree.token_ids == (9, 2, 2, 2, 2)


def test_depth_is_the_number_of_levels():
    """The deepest node is at `depth`, and level n is expanded from level n - 1 only: depth - 1 expansions."""
    levels = []

    def expand(frontier):
        levels.append(frontier.level)
        return same_everywhere(frontier)

    tree = grow(expand, depth=3, top_k=2, nodes=1024)
    assert max(tree.depths) == 3
    assert levels == [1, 2]
    # Two children of the root, then two of each of the two frontier nodes, twice.
    assert len(tree) == 1 + 2 + 4 + 4


def test_depth_one_never_asks_the_draft_again():
    """A tree of one level needs the root's log-probabilities only."""

    def expand(_frontier):
        raise AssertionError("not needed")

    assert grow(expand, depth=1, top_k=3, nodes=8).token_ids == (9, 2, 0, 3)


def test_nodes_limit_keeps_the_most_probable():
    """With N = 3 the nodes are 2 (0.5), 0 (0.3) and 2, 2 (0.25); 3 (0.15) and 2, 0 (0.15) are dropped."""
    tree = grow(depth=2, top_k=3, nodes=3)
    assert tree.token_ids == (9, 2, 0, 2)
    assert tree.parents == (0, 0, 0, 1)


def test_top_k_above_the_draft_vocabulary_takes_every_token():
    """K = 64 with four draft tokens drafts four children a node and does not fail."""
    assert len(grow(depth=1, top_k=64, nodes=64)) == 5


def test_draft_ids_become_target_ids():
    """R1: offsets [3, 3, 5] map draft ids 0, 1, 2 to target ids 3, 4, 7, in the tree and in what is expanded."""
    offsets = torch.tensor([3, 3, 5])
    seen = []

    def expand(frontier):
        seen.extend(frontier.token_ids)
        return torch.tensor([0.1, 0.3, 0.6]).log().repeat(len(frontier.token_ids), 1)

    tree = grow(expand, torch.tensor([0.1, 0.3, 0.6]).log(), torch.arange(3) + offsets, depth=2, top_k=2, nodes=6)
    assert tree.token_ids[1] == 7
    assert set(tree.token_ids[1:]) == {7, 4}
    assert seen == [7, 4]


def test_equal_scores_keep_parents_before_children():
    """A certain child scores exactly as its parent; a cut between them keeps the parent."""

    def certain(frontier):
        row = torch.tensor([0.0, -50.0, -50.0, -50.0])
        return row.repeat(len(frontier.token_ids), 1)

    half = torch.tensor([0.5, 0.5, 0.0, 0.0]).log().clamp(min=-50.0)
    # Scores: both roots' children log 0.5, their certain children log 0.5 as well, and so on.
    for nodes in range(1, 7):
        tree = grow(certain, half, depth=3, top_k=2, nodes=nodes)
        assert len(tree) == nodes + 1
        assert tree.depths[: min(nodes, 2) + 1] == (0, 1, 1)[: min(nodes, 2) + 1]


def test_parent_rows_name_the_row_of_the_frontier_before():
    """A frontier node's parent row is where its parent stood in the frontier before, best first."""
    frontiers = []

    def expand(frontier):
        frontiers.append(frontier)
        rows = {2: [0.9, 0.05, 0.03, 0.02], 0: [0.02, 0.9, 0.05, 0.03]}
        return torch.tensor([rows.get(token, [0.25] * 4) for token in frontier.token_ids]).log()

    grow(expand, torch.tensor([0.45, 0.0001, 0.5499, 0.0001]).log(), depth=3, top_k=2, nodes=16)
    assert frontiers[0].token_ids == (2, 0)
    assert frontiers[0].parent_rows == (0, 0)
    # Below 2 (0.55) token 0 (0.9), below 0 (0.45) token 1 (0.9).
    assert frontiers[1].token_ids == (0, 1)
    assert frontiers[1].parent_rows == (0, 1)

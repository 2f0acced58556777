"""Growing a tree: shape, ties, and the mapping from draft ids to target ids."""

from __future__ import annotations

import math

import pytest
import torch

from builders import grow_tree
from eagle3.config.speculation import Speculation
from eagle3.tree.chain import Chain
from eagle3.tree.growth import Frontier, TreeGrowth

IDENTITY = torch.arange(4)
# Token 2 is the most probable after anything, then 0, 3 and 1.
PREFERENCE = torch.tensor([0.3, 0.05, 0.5, 0.15]).log()


def same_everywhere(frontier: Frontier):
    return PREFERENCE.repeat(len(frontier.token_ids), 1)


def grow(expand=same_everywhere, root_log_probs=PREFERENCE, target_ids=IDENTITY, chain=None, **shape):
    return grow_tree(Speculation(**shape), 9, root_log_probs, target_ids, expand, chain)


def chain(*tokens_and_probabilities):
    token_ids, probabilities = zip(*tokens_and_probabilities, strict=True)
    return Chain(token_ids, tuple(math.log(one) for one in probabilities))


def probabilities(tree):
    """Path of tokens -> probability."""
    paths = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parents[node]], tree.token_ids[node]))
    return {path: math.exp(score) for path, score in zip(paths[1:], tree.scores[1:], strict=True)}


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


def test_a_chain_alone_is_a_tree():
    """Without a level of the draft the tree is the chain, as deep as the nodes allow."""
    guess = chain((7, 0.9), (8, 0.8), (9, 0.5))
    for nodes in (1, 2, 3, 9):
        tree = TreeGrowth(Speculation(depth=1, nodes=nodes), 4, guess).tree()
        assert tree.token_ids == (4, 7, 8, 9)[: nodes + 1]
        assert tree.parents == (0, 0, 1, 2)[: nodes + 1]
    assert list(probabilities(tree).values()) == pytest.approx([0.9, 0.72, 0.36])


def test_a_chain_may_be_deeper_than_the_levels():
    """Levels of the draft end at the depth; what is grafted goes on below it, within the nodes."""
    tree = grow(chain=chain((1, 0.9), (1, 0.9), (1, 0.9), (1, 0.9)), depth=2, top_k=2, nodes=8)
    assert probabilities(tree)[(1, 1, 1, 1)] == pytest.approx(0.9**4)
    assert max(tree.depths) == 4
    assert len(tree) == 9


def test_the_most_probable_of_both_are_kept():
    """Token 3, guessed at 0.4, comes before 0 at 0.3; guessed at 0.2 it does not."""
    for guessed, expected in ((0.4, {(2,), (3,)}), (0.2, {(2,), (0,)})):
        tree = grow(chain=chain((3, guessed)), depth=1, top_k=3, nodes=2)
        assert set(probabilities(tree)) == expected


@pytest.mark.parametrize(("guessed", "kept"), [(0.3, 0.5), (0.8, 0.8)])
def test_a_token_that_both_give_is_one_node(guessed, kept):
    """The better of both probabilities counts, for what is below the node too, grafted or the draft's own."""
    tree = grow(chain=chain((2, guessed), (1, 0.9), (1, 0.5)), depth=2, top_k=2, nodes=10)
    found = probabilities(tree)
    assert len(found) == len(tree) - 1, "no path is there twice"
    assert found[(2,)] == pytest.approx(kept)
    assert found[(2, 1)] == pytest.approx(kept * 0.9)
    assert found[(2, 1, 1)] == pytest.approx(kept * 0.9 * 0.5)
    assert found[(2, 2)] == pytest.approx(kept * 0.5)


def test_the_draft_goes_on_from_what_is_grafted():
    """A likely grafted node joins the frontier although the draft did not name it, and gets children of its own."""
    tree = grow(chain=chain((1, 0.9)), depth=2, top_k=2, nodes=10)
    assert probabilities(tree)[(1, 2)] == pytest.approx(0.9 * 0.5)


def test_an_unlikely_chain_changes_nothing_but_its_own_node():
    """Of an unlikely guess nothing joins the frontier, and the draft's nodes are as without it."""
    without = probabilities(grow(depth=3, top_k=2, nodes=100))
    guess = chain((1, 0.001), (1, 0.9))
    found = probabilities(grow(chain=guess, depth=3, top_k=2, nodes=100))
    assert found.keys() - without.keys() == {(1,), (1, 1)}
    assert all(found[path] == pytest.approx(without[path]) for path in without)


@pytest.mark.parametrize(
    ("least", "kept"),
    [
        (0.0, {(2,), (0,), (3,), (2, 2), (2, 0), (2, 3), (0, 2), (0, 0), (0, 3), (3, 2), (3, 0), (3, 3)}),
        (0.1, {(2,), (0,), (3,), (2, 2), (2, 0), (0, 2)}),
        (0.2, {(2,), (0,), (2, 2)}),
        (0.4, {(2,)}),
        (0.6, set()),
    ],
)
def test_improbable_nodes_are_left_out(least, kept):
    """A node below the threshold is not verified, so thresholds give nested trees, down to a bare root."""
    assert set(probabilities(grow(depth=2, top_k=3, nodes=100, min_probability=least))) == kept


def test_a_node_at_the_threshold_is_kept():
    """Accepts what is at the threshold, but for rounding, and refuses what is a little below it."""
    half = torch.tensor([0.5, 0.25, 0.25, 0.0]).log()
    for least, tokens in ((0.24999, (9, 0, 1, 2)), (0.25001, (9, 0))):
        assert grow(root_log_probs=half, depth=1, top_k=3, nodes=9, min_probability=least).token_ids == tokens


def test_nothing_is_drafted_below_improbable_nodes():
    """A level whose best node is below the threshold costs no pass; one with a single probable node costs one row."""
    for least, rows in ((0.0, (2, 2, 2)), (0.2, (2, 1)), (0.3, (1,)), (0.49, (1,)), (0.51, ())):
        levels = []

        def expand(frontier, levels=levels):
            levels.append(len(frontier.token_ids))
            return same_everywhere(frontier)

        tree = grow(expand, depth=4, top_k=2, nodes=100, min_probability=least)
        assert tuple(levels) == tree.draft_rows == rows


def test_an_improbable_chain_is_cut():
    """What is guessed is held to the same threshold, with and without levels of the draft."""
    guess = chain((1, 0.9), (1, 0.5), (1, 0.5))
    shape = Speculation(depth=1, nodes=8, min_probability=0.4)
    assert TreeGrowth(shape, 4, guess).tree().token_ids == (4, 1, 1)
    assert set(probabilities(grow(chain=guess, depth=2, top_k=2, nodes=9, min_probability=0.43))) == {
        (1,), (1, 1), (1, 2), (2,),
    }  # fmt: skip

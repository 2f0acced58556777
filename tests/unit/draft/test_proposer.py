"""Drafting for many sequences, against the same draft run without a cache along every path of a tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from builders import randomise, tiny_draft, tiny_draft_config, tiny_target
from eagle3.cache.block_pool import BlockPool
from eagle3.cache.block_table import BlockTable
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import DraftState, Proposer, Wish
from eagle3.errors import NumericalError
from eagle3.models.attention import causal_attend
from eagle3.models.draft import Draft
from eagle3.tree.draft_tree import DraftTree
from engine_doubles import contents

SHAPE = Speculation(depth=3, top_k=3, nodes=12)
IDS = [5, 9, 2, 30, 17, 17, 8]


@pytest.fixture(params=["plain", "feedback normed", "norm before residual", "reduced vocabulary"])
def draft(request):
    changes = {
        "plain": {"draft_vocab_size": 40},
        "feedback normed": {"draft_vocab_size": 40, "feedback_normed": True},
        "norm before residual": {"draft_vocab_size": 40, "norm_before_residual": True},
        "reduced vocabulary": {"draft_vocab_size": 24},
    }[request.param]
    config = replace(tiny_draft_config(own_embedding=True), **changes)
    draft: Any = randomise(Draft(config), seed=4).eval().requires_grad_(False)
    draft.lm_head.weight.mul_(6.0)
    draft.target_ids_V = torch.randperm(40, generator=torch.Generator().manual_seed(1))[: config.draft_vocab_size]
    return draft


def taps(size, seed=0, width=48):
    return torch.randn(size, width, generator=torch.Generator().manual_seed(seed))


def uncached_log_probs(draft, taps_SF, next_ids, path_ids):
    """Log-probabilities after a path below the last token, every input run anew from the beginning."""
    hidden = draft.fuse(taps_SF[None])
    token_ids = list(next_ids)

    def run():
        return draft(torch.tensor([token_ids]), hidden, torch.arange(len(token_ids))[None], causal_attend)

    output = run()
    for token_id in path_ids:
        hidden = torch.cat([hidden, output.feedback_BSH[:, -1:]], dim=1)
        token_ids.append(token_id)
        output = run()
    return draft.logits(output.normed_BSH[0, -1]).log_softmax(-1)


@dataclass
class Desk:
    """A proposer and the tables of its sequences; `scattered` leaves no two blocks of a sequence side by side."""

    proposer: Proposer
    pool: BlockPool
    scattered: bool

    def state(self, blocks=24):
        """A new sequence with room for 3 slots a block."""
        table = BlockTable(self.pool, 3)
        for number in range(1, blocks + 1):
            table.grow(3 * number)
            if self.scattered:
                self.pool.allocate(table.slots(3 * number - 1, 3 * number)[0] // 3)
        assert isinstance(table.slots(0, 3 * blocks), list if self.scattered else range)
        return DraftState(table)

    def told(self, features, next_ids):
        """A sequence that has observed these pairs."""
        state = self.state()
        state.add(features, next_ids)
        self.proposer.observe([state])
        return state

    def tree(self, state, root_id, shape=SHAPE):
        """One tree by itself."""
        (tree,) = self.proposer.propose([Wish(state, root_id, shape)])
        assert isinstance(tree, DraftTree), tree
        return tree

    def stored(self, state):
        return contents(self.proposer.cache, state.table.slots(0, state.length))


def desk(draft, *, blocks=300, scattered=True):
    return Desk(Proposer(draft, blocks * 3), BlockPool(blocks), scattered)


def assert_same_tree(left, right):
    assert (left.token_ids, left.parents) == (right.token_ids, right.parents)
    assert left.scores == pytest.approx(right.scores, abs=1e-4)


def test_every_node_scores_as_in_an_uncached_run(draft):
    """Mask, positions, feedback rows and id mapping are right: each node's score is its path's log-probability."""
    one = desk(draft)
    features = taps(len(IDS))
    tree = one.tree(one.told(features, IDS), IDS[-1])
    assert len(tree) == SHAPE.nodes + 1
    assert max(tree.depths) >= 2
    draft_id = {int(target): index for index, target in enumerate(draft.target_ids_V)}
    for node in range(1, len(tree)):
        path: list[int] = []
        walker = tree.parents[node]
        while walker:
            path.insert(0, tree.token_ids[walker])
            walker = tree.parents[walker]
        log_probs = uncached_log_probs(draft, features, IDS, path)
        own = tree.scores[node] - tree.scores[tree.parents[node]]
        assert own == pytest.approx(float(log_probs[draft_id[tree.token_ids[node]]]), abs=1e-4)


def test_trees_drafted_together_are_the_trees_drafted_alone(draft):
    """R18: five sequences of ragged lengths and shapes, told and drafted in one pass, are as each by itself."""
    shapes = [
        SHAPE,
        Speculation(depth=1, top_k=2, nodes=8),
        Speculation(depth=5, top_k=1, nodes=4),
        Speculation(depth=2, top_k=6, nodes=5),
        Speculation(depth=4, top_k=4, nodes=40),
    ]
    lengths = [7, 1, 4, 6, 2]
    together = desk(draft)
    states = [together.state() for _ in lengths]
    for number, (state, length) in enumerate(zip(states, lengths, strict=True)):
        state.add(taps(length, seed=number), IDS[:length])
    together.proposer.observe(states)
    wishes = [Wish(state, IDS[length - 1], shape) for state, length, shape in zip(states, lengths, shapes, strict=True)]
    trees = together.proposer.propose(wishes)
    for number, (tree, length, shape) in enumerate(zip(trees, lengths, shapes, strict=True)):
        one = desk(draft, scattered=False)
        state = one.told(taps(length, seed=number), IDS[:length])
        assert_same_tree(tree, one.tree(state, IDS[length - 1], shape))
        assert len(tree) > 1
        for left, right in zip(together.stored(states[number]), one.stored(state), strict=True):
            torch.testing.assert_close(left, right)


def test_proposing_leaves_what_was_observed_alone(draft):
    """Levels of trees lie behind the observed entries: the same proposal twice, and the same after another one."""
    one = desk(draft)
    state = one.told(taps(len(IDS)), IDS)
    other = one.told(taps(5, seed=3), IDS[:5])
    before = [*one.stored(state), *one.stored(other)]
    first = one.tree(state, IDS[-1])
    assert state.length == len(IDS)
    one.tree(state, IDS[-1], Speculation(depth=1, top_k=3, nodes=12))
    one.tree(other, IDS[4])
    assert one.tree(state, IDS[-1]) == first
    for left, right in zip([*one.stored(state), *one.stored(other)], before, strict=True):
        assert torch.equal(left, right)


def test_proposing_writes_only_what_its_shape_reserves(draft):
    """No slot behind `reserved_slots` of its own sequence is touched, so that tables need not be longer."""
    one = desk(draft)
    state = one.told(taps(4), IDS[:4])
    for store in (one.proposer.cache.keys_LGCD, one.proposer.cache.values_LGCD):
        store.fill_(-77.0)
    for shape in (SHAPE, Speculation(depth=5, top_k=4, nodes=2), Speculation(depth=1, top_k=9, nodes=9)):
        one.tree(state, IDS[3], shape)
        allowed = set(state.table.slots(4, 4 + shape.reserved_slots))
        for store in (one.proposer.cache.keys_LGCD, one.proposer.cache.values_LGCD):
            touched = (store != -77.0).any(dim=-1).any(dim=1).any(dim=0).nonzero().flatten().tolist()
            assert set(touched) <= allowed
            store.fill_(-77.0)


@pytest.mark.parametrize("cuts", [(1,), (3,), (1, 2, 3, 4, 5, 6), (2, 6)])
@pytest.mark.parametrize("lazily", [False, True])
def test_observing_in_pieces_is_observing_at_once(draft, cuts, lazily):
    """However accepted tokens come, with proposals in between or put off to the end, the outcome is the same."""
    whole, pieces = desk(draft, scattered=False), desk(draft)
    features = taps(len(IDS))
    expected = whole.told(features, IDS)
    state = pieces.state()
    for begin, end in zip((0, *cuts), (*cuts, len(IDS)), strict=True):
        state.add(features[begin:end], IDS[begin:end])
        assert state.pending_rows == (end if lazily else end - begin)
        if not lazily:
            pieces.proposer.observe([state])
            pieces.tree(state, IDS[end - 1])
    pieces.proposer.observe([state])
    assert (state.length, state.pending_rows) == (len(IDS), 0)
    for left, right in zip(pieces.stored(state), whole.stored(expected), strict=True):
        torch.testing.assert_close(left, right)
    assert_same_tree(pieces.tree(state, IDS[-1]), whole.tree(expected, IDS[-1]))


def test_catching_up_leaves_the_newest(draft):
    """What plain steps left is read, but for the last step's; a sequence with no more than that is left alone."""
    one, whole = desk(draft), desk(draft, scattered=False)
    features = taps(len(IDS))
    behind, current, idle = one.state(), one.state(), one.told(taps(2), IDS[:2])
    for begin, end in ((0, 2), (2, 3), (3, 7)):
        behind.add(features[begin:end], IDS[begin:end])
    current.add(features, IDS)
    one.proposer.catch_up([behind, current, idle])
    assert [(s.length, s.pending_rows) for s in (behind, current, idle)] == [(3, 4), (0, 7), (2, 0)]
    one.proposer.observe([behind, current, idle])
    expected = whole.tree(whole.told(features, IDS), IDS[-1])
    assert_same_tree(one.tree(behind, IDS[-1]), expected)
    assert_same_tree(one.tree(current, IDS[-1]), expected)


def test_nothing_pending_is_nothing_to_do(draft):
    """Observing sequences that have nothing new runs no pass and changes nothing."""
    one = desk(draft)
    state = one.told(taps(3), IDS[:3])
    before = one.stored(state)
    one.proposer.observe([state, one.state()])
    one.proposer.observe([])
    assert one.proposer.propose([]) == []
    assert all(torch.equal(a, b) for a, b in zip(one.stored(state), before, strict=True))


def test_a_reset_sequence_begins_anew(draft):
    """After its blocks were taken away a sequence is told everything again, and drafts the same."""
    one = desk(draft)
    state = one.told(taps(len(IDS)), IDS)
    first = one.tree(state, IDS[-1])
    state.add(taps(1, seed=9), [4])
    state.reset()
    assert (state.length, state.pending_rows) == (0, 0)
    state.add(taps(len(IDS)), IDS)
    one.proposer.observe([state])
    assert_same_tree(one.tree(state, IDS[-1]), first)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_depth_is_limited_by_what_may_still_be_emitted(draft, depth):
    """No level is drafted below the limited depth; the root is the last emitted token."""
    one = desk(draft)
    tree = one.tree(one.told(taps(len(IDS)), IDS), IDS[-1], SHAPE.limited(depth=depth))
    assert max(tree.depths) == depth
    assert tree.token_ids[0] == IDS[-1]
    assert SHAPE.limited(depth=9) == SHAPE


def test_an_unsure_draft_costs_no_pass(draft):
    """With a threshold near 1 the tree is a bare root and no level runs; one sequence may be sure, another not."""
    one = desk(draft)
    told = [one.told(taps(len(IDS)), IDS), one.told(taps(5, seed=3), IDS[:5])]
    run, rows = one.proposer._run_frontiers, []
    one.proposer._run_frontiers = lambda active, feedback: rows.append(len(feedback)) or run(active, feedback)
    sure = SHAPE.model_copy(update={"min_probability": 0.9999})
    trees = one.proposer.propose([Wish(state, 3, sure) for state in told])
    assert trees == [DraftTree.root_only(3)] * 2
    assert rows == []
    both = one.proposer.propose([Wish(told[0], 3, sure), Wish(told[1], 3, SHAPE)])
    assert len(both[0]) == 1
    assert_same_tree(both[1], one.tree(told[1], 3))
    assert rows[:2] == list(both[1].draft_rows) == [3, 3]


def test_nothing_observed_nothing_proposed(draft):
    """Before the first feature there is only the root, beside sequences that have observed."""
    one = desk(draft)
    empty, told = one.state(), one.told(taps(len(IDS)), IDS)
    trees = one.proposer.propose([Wish(empty, 3, SHAPE), Wish(told, IDS[-1], SHAPE)])
    assert trees[0] == DraftTree.root_only(3)
    assert_same_tree(trees[1], one.tree(told, IDS[-1]))


def test_only_words_of_the_draft_vocabulary_are_proposed(draft):
    """Every drafted token is a target id that the draft's vocabulary maps to."""
    one = desk(draft)
    tree = one.tree(one.told(taps(len(IDS)), IDS), IDS[-1], Speculation(depth=2, top_k=24, nodes=200))
    assert set(tree.token_ids[1:]) <= set(draft.target_ids_V.tolist())


def test_one_following_token_for_each_feature(draft):
    """Features and tokens that do not pair up are a programmer's fault."""
    with pytest.raises(AssertionError, match="one following token"):
        desk(draft).state().add(taps(3), [1, 2])


def test_broken_draft_is_a_numerical_error():
    """NaN in the draft's head is reported as such, not drafted as a token."""
    draft = tiny_draft(tiny_target())
    draft.lm_head.weight[3, 3] = float("nan")
    one = desk(draft)
    (outcome,) = one.proposer.propose([Wish(one.told(taps(2, width=96), [1, 2]), 2, SHAPE)])
    assert isinstance(outcome, NumericalError)
    assert "the draft produced NaN" in str(outcome)


def test_a_sequence_whose_draft_breaks_fails_alone(draft):
    """NaN in one sequence's feature is that sequence's error; the trees of its neighbours are as without it."""
    one, clean = desk(draft), desk(draft)
    broken = taps(4, seed=1)
    broken[3] = float("nan")
    states = [one.state() for _ in range(3)]
    for state, features in zip(states, (taps(4, seed=0), broken, taps(4, seed=2)), strict=True):
        state.add(features, IDS[:4])
    one.proposer.observe(states)
    first, second, third = one.proposer.propose([Wish(state, IDS[3], SHAPE) for state in states])
    assert isinstance(second, NumericalError)
    assert_same_tree(first, clean.tree(clean.told(taps(4, seed=0), IDS[:4]), IDS[3]))
    assert_same_tree(third, clean.tree(clean.told(taps(4, seed=2), IDS[:4]), IDS[3]))


def test_a_draft_that_cannot_fill_the_tree_drafts_what_it_has():
    """A draft vocabulary of one token gives a chain, whatever K is."""
    draft = tiny_draft(tiny_target(), target_ids=[7])
    one = desk(draft)
    assert one.tree(one.told(taps(2, width=96), [1, 2]), 2).token_ids == (2, 7, 7, 7)


def test_rehearsal_is_harmless(draft):
    """Measuring a pass of any size fails nothing and needs no sequence."""
    one = desk(draft)
    for rows in (1, 2, 33):
        one.proposer.rehearse(rows)
    state = one.told(taps(len(IDS)), IDS)
    assert_same_tree(one.tree(state, IDS[-1]), (fresh := desk(draft)).tree(fresh.told(taps(len(IDS)), IDS), IDS[-1]))

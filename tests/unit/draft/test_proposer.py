"""The draft side of one sequence, against the same draft run without a cache along every path of the tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from builders import randomise, tiny_draft, tiny_draft_config, tiny_target
from eagle3.config.speculation import Speculation
from eagle3.draft.proposer import Proposer
from eagle3.errors import NumericalError
from eagle3.models.attention import causal_attend
from eagle3.models.draft import Draft

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


def test_every_node_scores_as_in_an_uncached_run(draft):
    """Mask, positions, feedback rows and id mapping are right: each node's score is its path's log-probability."""
    proposer = Proposer(draft, SHAPE)
    features = taps(len(IDS))
    proposer.observe(features, IDS)
    tree = proposer.propose(IDS[-1], max_depth=8)
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


def test_proposing_leaves_the_stable_cache_alone(draft):
    """The keys and values of tree levels are dropped: the same proposal twice, and the same after another one."""
    proposer = Proposer(draft, SHAPE)
    proposer.observe(taps(len(IDS)), IDS)
    before = proposer.cache.keys_L1GCD[..., : len(IDS), :].clone()
    first = proposer.propose(IDS[-1], max_depth=8)
    assert (proposer.cache.length, proposer.cache.reserved) == (len(IDS), 0)
    proposer.propose(IDS[-1], max_depth=1)
    assert proposer.propose(IDS[-1], max_depth=8) == first
    assert torch.equal(proposer.cache.keys_L1GCD[..., : len(IDS), :], before)
    proposer.cache.check_integrity()


@pytest.mark.parametrize("cuts", [(1,), (3,), (1, 2, 3, 4, 5, 6), (2, 6)])
def test_observing_in_pieces_is_observing_at_once(draft, cuts):
    """However the accepted tokens come, with proposals in between, keys, values and the next tree are the same."""
    whole, pieces = Proposer(draft, SHAPE), Proposer(draft, SHAPE)
    features = taps(len(IDS))
    whole.observe(features, IDS)
    for begin, end in zip((0, *cuts), (*cuts, len(IDS)), strict=True):
        pieces.observe(features[begin:end], IDS[begin:end])
        pieces.propose(IDS[end - 1], max_depth=3)
    for name in ("keys_L1GCD", "values_L1GCD"):
        torch.testing.assert_close(
            getattr(pieces.cache, name)[..., : len(IDS), :], getattr(whole.cache, name)[..., : len(IDS), :]
        )
    left, right = pieces.propose(IDS[-1], max_depth=8), whole.propose(IDS[-1], max_depth=8)
    assert (left.token_ids, left.parents) == (right.token_ids, right.parents)


@pytest.mark.parametrize("max_depth", [-1, 0, 1, 2, 9])
def test_depth_is_limited_by_what_may_still_be_emitted(draft, max_depth):
    """No level is drafted that could not be emitted, and never more than the shape asks for."""
    proposer = Proposer(draft, SHAPE)
    proposer.observe(taps(len(IDS)), IDS)
    tree = proposer.propose(IDS[-1], max_depth)
    assert max(tree.depths) <= max(0, min(max_depth, SHAPE.depth))
    assert (len(tree) == 1) == (max_depth < 1)
    assert tree.token_ids[0] == IDS[-1]


def test_nothing_observed_nothing_proposed(draft):
    """Before the first feature there is only the root."""
    assert len(Proposer(draft, SHAPE).propose(3, max_depth=8)) == 1


def test_only_words_of_the_draft_vocabulary_are_proposed(draft):
    """Every drafted token is a target id that the draft's vocabulary maps to."""
    proposer = Proposer(draft, Speculation(depth=2, top_k=24, nodes=200))
    proposer.observe(taps(len(IDS)), IDS)
    tree = proposer.propose(IDS[-1], max_depth=8)
    assert set(tree.token_ids[1:]) <= set(draft.target_ids_V.tolist())


def test_one_following_token_for_each_feature(draft):
    """Features and tokens that do not pair up are a programmer's fault."""
    with pytest.raises(AssertionError, match="one following token"):
        Proposer(draft, SHAPE).observe(taps(3), [1, 2])


def test_broken_draft_is_a_numerical_error():
    """NaN in the draft's head is reported as such, not drafted as a token."""
    draft = tiny_draft(tiny_target())
    draft.lm_head.weight[3, 3] = float("nan")
    with pytest.raises(NumericalError, match="the draft produced NaN"):
        Proposer(draft, SHAPE).observe(taps(2, width=96), [1, 2])


def test_a_draft_that_cannot_fill_the_tree_drafts_what_it_has():
    """A draft vocabulary of one token gives a chain, whatever K is."""
    draft = tiny_draft(tiny_target(), target_ids=[7])
    proposer = Proposer(draft, SHAPE)
    proposer.observe(taps(2, width=96), [1, 2])
    assert proposer.propose(2, max_depth=8).token_ids == (2, 7, 7, 7)

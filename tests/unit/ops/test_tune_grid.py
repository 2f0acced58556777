"""The shapes that are tried, and their order under costs and guesses that are known."""

from __future__ import annotations

from eagle3.config.speculation import Speculation
from eagle3.ops.tune.grid import DEEPEST, WIDEST, Overheads, best_different, predict, shapes
from eagle3.ops.tune.guess import Place, RecordedText, TreeGuess
from eagle3.ops.tune.replay import MOST_NODES, Replay
from eagle3.tree.draft_tree import DraftTree

FREE = Overheads(speculative_s=0.0, plain_s=0.0)
DEPTH = 8


def chain_guess(num_right, sure):
    """A chain of which the first tokens are right, each node as probable as `sure` says."""
    scores = [0.0]
    for step in range(DEPTH):
        scores.append(scores[-1] - (0.01 if step < sure else 5.0))
    tree = DraftTree(token_ids=(9, *range(DEPTH)), parents=(0, *range(DEPTH)), scores=tuple(scores))
    return TreeGuess.of(tree, [*range(num_right), 77], None)


def text(kinds):
    """Places at which the draft is right for some tokens, and sure of some."""
    places = [
        Place(limit=100, alone=None, beside=None, drafted=chain_guess(right, sure), joined=None)
        for right, sure in kinds
    ]
    return RecordedText(tuple(places))


def best(kinds, *, row_s, draft_s, overheads=FREE):
    replay = Replay([text(kinds)], verify=lambda rows: 1 + row_s * rows, draft=lambda rows: draft_s)
    candidates = list(shapes(Speculation(), has_draft=True))
    return predict(replay, candidates, overheads, on_shape=lambda: None)


def test_every_shape_is_sensible():
    """Within what is recorded and kept, none twice, none deeper than its nodes or larger than its draft can fill."""
    tried = list(shapes(Speculation(suffix_tokens=9), has_draft=True))
    assert len(set(tried)) == len(tried) > 1000
    for shape in tried:
        assert shape.nodes <= MOST_NODES
        assert shape.suffix_tokens == 9, "the rest of the settings is the user's"
        Speculation.model_validate(shape.model_dump())
        if "eagle3" in shape.drafters:
            assert shape.depth <= min(DEEPEST, shape.nodes)
            assert shape.top_k <= min(WIDEST, shape.nodes)
    assert {shape.drafters for shape in tried} == {("eagle3",), ("suffix",), ("eagle3", "suffix")}


def test_without_a_draft_only_repetitions_guess():
    """No shape asks for a draft that is not there."""
    assert {shape.drafters for shape in shapes(Speculation(), has_draft=False)} == {("suffix",)}


def test_a_draft_that_is_right_is_asked_for_all():
    """Free rows and a draft that is always right: the deepest tree wins, by its tokens a cycle."""
    first = best([(8, 8)] * 90, row_s=0.0, draft_s=0.0)[0]
    assert first.shape.depth == 8
    assert first.ratio == first.replayed.tau == 9.0


def test_a_useless_draft_does_not_win():
    """Never right: no shape is faster than plain decoding, and what costs least comes first."""
    predictions = best([(0, 8)] * 90, row_s=0.5, draft_s=0.1)
    assert predictions[0].ratio <= 1.0
    assert predictions[-1].shape.nodes == 48 or predictions[-1].shape.depth == 8
    assert [one.ratio for one in predictions] == sorted((one.ratio for one in predictions), reverse=True)


def test_a_draft_that_knows_when_it_knows_gets_a_threshold():
    """Half of the places right and sure, half wrong and unsure: the best shape leaves the unsure nodes out."""
    first = best([(8, 8), *[(0, 0)] * 9] * 9, row_s=0.2, draft_s=0.1)[0]
    assert first.shape.min_probability > 0
    assert first.replayed.nodes <= 8 * 10


def test_overheads_count():
    """A cycle that takes long beside its passes takes from the ratio; of plain cycles it adds to it."""
    kinds = [(2, 8)] * 30
    ratio = best(kinds, row_s=0.1, draft_s=0.1)[0].ratio
    assert best(kinds, row_s=0.1, draft_s=0.1, overheads=Overheads(speculative_s=1.0, plain_s=0.0))[0].ratio < ratio
    assert best(kinds, row_s=0.1, draft_s=0.1, overheads=Overheads(speculative_s=0.0, plain_s=1.0))[0].ratio > ratio


def test_what_is_confirmed_differs():
    """Of shapes with the same drafters and nodes the best alone is confirmed, in order."""
    predictions = best([(3, 8)] * 30, row_s=0.1, draft_s=0.1)
    chosen = best_different(predictions, 3)
    assert chosen[0] is predictions[0]
    assert len({(one.shape.drafters, one.shape.nodes) for one in chosen}) == 3
    assert [one.ratio for one in chosen] == sorted((one.ratio for one in chosen), reverse=True)
    assert best_different(predictions[:1], 3) == predictions[:1]

"""What passes and steps cost: interpolation, medians, and predictions where nothing was measured."""

from __future__ import annotations

import pytest

from eagle3.config.speculation import Speculation
from eagle3.engine.costs import ENOUGH, RowCosts, StepTimes
from eagle3.tree.draft_tree import DraftTree

SHAPE = Speculation(depth=3, top_k=2, nodes=6)


def times(verify=None, draft=None):
    return StepTimes(RowCosts(verify or {1: 1.0, 100: 1.0}), RowCosts(draft or {1: 0.1, 100: 0.1}))


def test_measured_points_are_given_back():
    """At a measured number of rows the cost is what was measured, whatever the order of the measurements."""
    costs = RowCosts({8: 5.0, 1: 2.0, 4: 3.0})
    assert [costs(rows) for rows in (1, 4, 8)] == [2.0, 3.0, 5.0]


@pytest.mark.parametrize(("rows", "seconds"), [(0, 2.0), (2.5, 2.5), (6, 4.0), (16, 10.0), (80, 50.0)])
def test_between_points_lines_and_beyond_them_proportion(rows, seconds):
    """Straight lines between points; never less than one row; beyond the last point in proportion to rows."""
    assert RowCosts({1: 2.0, 4: 3.0, 8: 5.0})(rows) == pytest.approx(seconds)


def test_more_rows_never_cost_less():
    """A measurement that says so is noise: it is lifted to the ones before it."""
    costs = RowCosts({1: 2.0, 2: 1.0, 4: 3.0})
    values = [costs(rows / 4) for rows in range(40)]
    assert values == sorted(values)
    assert costs(2) == 2.0


def test_nothing_measured_is_a_fault():
    """Costs without a point cannot be asked for anything."""
    with pytest.raises(AssertionError, match="measurement"):
        RowCosts({})


def test_rows_of_a_pass_of_some_seconds():
    """The measured point below, in proportion beyond the last, and never less than the fewest."""
    costs = RowCosts({2: 1.0, 8: 2.0, 32: 4.0})
    assert [costs.rows_within(seconds) for seconds in (0.1, 1.0, 3.9, 4.0, 40.0)] == [2, 2, 8, 32, 320]


def test_a_disturbed_measurement_does_not_make_prompts_crawl():
    """Rows that fit into a time follow the pace of real steps, and are never fewer than 32."""
    slow = times(verify={1: 1.0, 64: 2.0, 128: 4.0}, draft={1: 0.0})  # ten times too slow
    assert slow.rows_within(0.2) == 32
    for _ in range(ENOUGH):
        slow.record(1, None, 0.1)
    assert slow.rows_within(0.2) == 64
    assert slow.rows_within(0.4) == 128


def test_a_step_is_predicted_from_its_rows():
    """Verification of root and nodes, two rows of observing each, and a draft pass for each level but the last."""
    costs = times(verify={1: 1.0, 101: 101.0}, draft={1: 0.01, 101: 1.01})
    assert costs.seconds(1, None) == pytest.approx(1.0)
    assert costs.seconds(4, None) == pytest.approx(4.0)
    assert costs.seconds(2, SHAPE) == pytest.approx(2 * 7 + 0.01 * 4 + 2 * 0.01 * 4)


def test_a_few_steps_are_trusted_and_one_is_not():
    """From `ENOUGH` steps on the median counts, so that one slow step, a neighbour's, changes nothing."""
    costs = times()
    predicted = costs.seconds(1, None)
    for count in range(1, ENOUGH):
        costs.record(1, None, 5.0)
        assert costs.samples(1, None) == count
        assert costs.seconds(1, None) == predicted
    costs.record(1, None, 5.0)
    assert costs.seconds(1, None) == 5.0
    costs.record(1, None, 500.0)
    assert costs.seconds(1, None) == 5.0


def test_old_steps_are_forgotten():
    """When times change for good, the median follows within some fifteen steps."""
    costs = times()
    for _ in range(50):
        costs.record(1, SHAPE, 5.0)
    for _ in range(15):
        costs.record(1, SHAPE, 2.0)
    assert costs.seconds(1, SHAPE) == 2.0


def test_loads_of_similar_size_share_measurements():
    """17 sequences are timed by what 16 took, in proportion; 8 are not."""
    costs = times()
    for _ in range(ENOUGH):
        costs.record(16, None, 32.0)
    assert costs.seconds(17, None) == pytest.approx(34.0)
    assert costs.samples(23, None) == ENOUGH
    assert costs.samples(24, None) == costs.samples(8, None) == costs.samples(15, None) == 0


def test_what_a_load_adds_is_expected_of_every_shape():
    """If plain steps at a load take a second more than their rows, trees that were not tried will, too."""
    costs = times()
    before = costs.seconds(4, SHAPE)
    for _ in range(ENOUGH):
        costs.record(4, None, costs.seconds(4, None) + 1.0)
    assert costs.seconds(4, SHAPE) == pytest.approx(before + 1.0)
    assert costs.seconds(1, SHAPE) == pytest.approx(before), "another load, another overhead"


def test_faster_than_predicted_is_no_gain_for_others():
    """A plain step that was faster than its rows says nothing about trees: their prediction stays."""
    costs = times()
    before = costs.seconds(4, SHAPE)
    for _ in range(ENOUGH):
        costs.record(4, None, 0.1)
    assert costs.seconds(4, SHAPE) == pytest.approx(before)
    assert costs.seconds(4, None) == pytest.approx(0.1)


def test_trees_of_many_sizes_are_timed_by_their_usual_size():
    """Mostly bare roots and now and then a full tree: the mean, not the median, which would be that of a bare root."""
    costs = times(verify={1: 1.0, 101: 101.0}, draft={1: 0.0})
    root = DraftTree.root_only(1)
    full = DraftTree(token_ids=(1, *range(6)), parents=(0,) * 7, scores=(0.0,) * 7)
    for turn in range(300):
        tree = full if turn % 3 == 0 else root
        usual = costs.record(1, SHAPE, 2.0 * len(tree), [tree])
        if turn > 200:
            assert usual == pytest.approx(2.0 * 3.0), "a step is brought to the usual size, large or small"
    assert costs.seconds(1, SHAPE) == pytest.approx(2.0 * 3.0)


def test_small_trees_do_not_set_the_pace():
    """A bare root that took as long as its row should is on time, although a full tree would have taken longer."""
    costs = times(verify={1: 0.1, 64: 0.2, 128: 0.4}, draft={1: 0.05, 64: 0.05})
    for _ in range(ENOUGH):
        costs.record(1, SHAPE, 0.15, [DraftTree.root_only(1)])
    assert costs.rows_within(0.2) == 64


def test_passes_of_the_draft_are_priced_as_they_were():
    """Levels that were not drafted cost nothing; those of many sequences run together."""
    costs = times(verify={1: 1.0, 100: 1.0}, draft={1: 1.0, 101: 101.0})
    chain = DraftTree(token_ids=(1, 2), parents=(0, 0), scores=(0.0, -1.0), draft_rows=(2, 1))
    for _ in range(ENOUGH):
        costs.record(2, SHAPE, 10.0, [chain, DraftTree.root_only(1)])
    # Verification 1, reading 4, levels 2 and 1: eight seconds should have become ten.
    assert costs.rows_within(1.25) == 100

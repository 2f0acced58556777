"""Timing passes: in turns, medians, sizes that the cache can hold, and what a disturbance does."""

from __future__ import annotations

from typing import Any

from eagle3.ops.tune.costs import DRAFT_ROWS, VERIFY_ROWS, measure_passes


class Clockwork:
    """Stands for a `StepRunner`: a pass takes a second a row, and longer where the script says so."""

    num_slots = 1000

    def __init__(self, disturbed=()):
        self.order: list[tuple[str, int]] = []
        self._disturbed = set(disturbed)

    def _take(self, what, rows):
        self.order.append((what, rows))
        return rows + (100.0 if len(self.order) in self._disturbed else 0.0)

    def verify_seconds(self, rows):
        return self._take("verify", rows)

    def draft_seconds(self, rows):
        return self._take("draft", rows) / 10


def measured(runner: Any, repeats=3):
    told = []
    costs = measure_passes(runner, repeats=repeats, on_take=lambda: told.append(1))
    assert len(told) == repeats + 1
    return costs


def test_every_size_is_timed_in_turns():
    """One pass of each size, then back: never the same size twice in a row but at the turning points."""
    runner = Clockwork()
    costs = measured(runner)
    assert costs.verify_s == {rows: float(rows) for rows in VERIFY_ROWS}
    assert costs.draft_s == {rows: rows / 10 for rows in DRAFT_ROWS}
    size = len(VERIFY_ROWS) + len(DRAFT_ROWS)
    turns = [runner.order[begin : begin + size] for begin in range(0, 4 * size, size)]
    assert turns[0] == turns[2] == turns[1][::-1] == turns[3][::-1]


def test_a_disturbed_moment_changes_nothing():
    """The whole first turn does not count, and of the others the median does."""
    size = len(VERIFY_ROWS) + len(DRAFT_ROWS)
    assert measured(Clockwork([*range(1, size + 1), *range(size + 1, size + 6)])) == measured(Clockwork())


def test_fewer_rows_never_cost_more():
    """Where one row took longer in most takes than two, it costs what two do."""
    order = measured_order()
    ones = [number for number, (what, rows) in enumerate(order, start=1) if (what, rows) == ("verify", 1)]
    costs = measured(Clockwork(ones))
    assert costs.verify_s[1] == costs.verify_s[2] == 2.0
    assert costs.verify()(1.5) == 2.0


def measured_order():
    runner = Clockwork()
    measured(runner)
    return runner.order


def test_no_pass_is_larger_than_the_cache():
    """A cache of 20 slots is timed up to 17 rows."""
    runner = Clockwork()
    runner.num_slots = 20
    costs = measured(runner)
    assert max(costs.verify_s) == 17
    assert max(costs.draft_s) == 16

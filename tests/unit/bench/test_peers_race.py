"""The order of turns, and who is left out of a round for which reason."""

from __future__ import annotations

from eagle3.bench.peers.race import Budget, run_race
from eagle3.bench.peers.turn import Turn
from peers_doubles import peer, section


class Machine:
    """Takes turns in its own time: each system has a length in seconds, and some fail."""

    def __init__(self, lengths, fails=()):
        self.lengths, self.fails = lengths, fails
        self.now_s = 0.0
        self.taken = []
        self.timeouts = []

    def clock(self):
        return self.now_s

    def take(self, peer, task, *, round_number, timeout_s):
        self.taken.append(f"{peer.name}{round_number}")
        self.timeouts.append(timeout_s)
        elapsed_s = min(self.lengths[peer.name], timeout_s)
        self.now_s += elapsed_s
        failure = "broken" if peer.name in self.fails or elapsed_s == timeout_s else None
        return Turn(system=peer.name, round=round_number, failure=failure, elapsed_s=elapsed_s)


def race(machine, *, rounds=2, total_s=None, turn_s=1000.0, sections=None, peers=None):
    return run_race(
        peers or [peer(name) for name in machine.lengths],
        sections or [section()],
        rounds=rounds,
        budget=Budget(total_s=total_s, turn_s=turn_s),
        on_turn=lambda results, turn: None,
        take=machine.take,
        clock=machine.clock,
    )


def test_systems_take_turns_round_after_round():
    """A B C A B C: what drifts on the machine meets all alike."""
    machine = Machine({"a": 1, "b": 1, "c": 1})
    (result,) = race(machine)
    assert machine.taken == ["a1", "b1", "c1", "a2", "b2", "c2"]
    assert (len(result.turns), result.skipped) == (6, {})


def test_sections_come_one_after_another():
    """All rounds of one set of prompts, then those of the next."""
    machine = Machine({"a": 1, "b": 1})
    results = race(machine, sections=[section("one"), section("two")])
    assert machine.taken == ["a1", "b1", "a2", "b2"] * 2
    assert [result.section.title for result in results] == ["one, T = 0", "two, T = 0"]


def test_a_budget_leaves_out_what_would_not_fit():
    """The slow system is left out of the second round, the quick ones after it are not; it is said."""
    machine = Machine({"a": 10, "slow": 60, "c": 10})
    (result,) = race(machine, total_s=110)
    assert machine.taken == ["a1", "slow1", "c1", "a2", "c2"]
    assert result.skipped == {"slow": "the time ran out before its round 2"}
    assert machine.now_s <= 110


def test_without_a_budget_everything_is_measured():
    """The accepting half of the test above."""
    machine = Machine({"a": 10, "slow": 60, "c": 10})
    (result,) = race(machine)
    assert (len(result.turns), result.skipped) == (6, {})
    assert set(machine.timeouts) == {1000.0}


def test_a_turn_may_not_outlast_the_budget():
    """A first turn of unknown length is ended when the time is up."""
    machine = Machine({"a": 10, "b": 10})
    race(machine, total_s=50)
    assert machine.timeouts == [50, 40, 30, 20]


def test_a_turn_that_the_budget_ended_is_no_failure():
    """A first turn that needs more than what is left is left out; one beyond the limit of a turn has failed."""
    machine = Machine({"a": 10, "slow": 900, "c": 10})
    (result,) = race(machine, rounds=1, total_s=100)
    assert result.skipped == {"slow": "the time ran out in its round 1", "c": "the time ran out before its round 1"}
    assert [turn.failure for turn in result.turns] == [None]
    (result,) = race(Machine({"a": 10, "slow": 900, "c": 10}), rounds=1, turn_s=50.0)
    assert result.skipped == {"slow": "failed in round 1"}
    assert [turn.failure for turn in result.turns] == [None, "broken", None]


def test_what_failed_is_not_tried_again_and_stops_nobody():
    """The others go on; the failed turn stays in the result."""
    machine = Machine({"a": 1, "broken": 1, "c": 1}, fails={"broken"})
    (result,) = race(machine)
    assert machine.taken == ["a1", "broken1", "c1", "a2", "c2"]
    assert result.skipped == {"broken": "failed in round 1"}
    assert [turn.failure for turn in result.turns if turn.system == "broken"] == ["broken"]


def test_what_cannot_sample_is_left_out_above_temperature_0_only():
    """A system that samples wrongly is measured at temperature 0."""
    machine = Machine({"a": 1, "greedy": 1})
    peers = [peer("a"), peer("greedy", samples=False)]
    cold, warm = race(machine, rounds=1, peers=peers, sections=[section(), section(temperature=1.0)])
    assert machine.taken == ["a1", "greedy1", "a1"]
    assert (cold.skipped, warm.skipped) == ({}, {"greedy": "cannot sample correctly here"})


def test_everything_so_far_is_told_after_every_turn():
    """Whoever stores results can do so before the next turn: a run may be cut."""
    machine = Machine({"a": 1, "b": 1})
    seen = []
    run_race(
        [peer("a"), peer("b")], [section()], rounds=2, budget=Budget(total_s=None, turn_s=9.0),
        on_turn=lambda results, turn: seen.append((turn.system, len(results[0].turns))),
        take=machine.take, clock=machine.clock,
    )  # fmt: skip
    assert seen == [("a", 1), ("b", 2), ("a", 3), ("b", 4)]

"""The engine and its adaptive policy together, on a clock that only models move."""

from __future__ import annotations

import pytest

from builders import ScriptedProposer, ScriptedTarget
from eagle3.config.speculation import Speculation
from eagle3.engine.calibration import calibrated_policy
from eagle3.engine.costs import RowCosts, StepTimes
from eagle3.engine.policy import AdaptivePolicy
from engine_doubles import TREE, RandomPolicy, request, rig

SCRIPT = [(11 * i + 3) % 64 for i in range(4000)]
SHAPE = Speculation(depth=4, top_k=1, nodes=4)


class Machine:
    """A clock, a target whose rows cost, and a draft whose observed rows cost too."""

    def __init__(self, *, row_s):
        self.now = 0.0
        self.row_s = row_s
        machine = self

        class Target(ScriptedTarget):
            def __call__(self, token_ids_BS, positions_BS, attend):
                machine.now += 1.0 + machine.row_s * token_ids_BS.shape[1]
                return super().__call__(token_ids_BS, positions_BS, attend)

        class Proposer(ScriptedProposer):
            def observe(self, states):
                machine.now += 0.02 * sum(state.pending_rows for state in states)
                super().observe(states)

            def propose(self, wishes):
                machine.now += 0.05 if wishes else 0.0
                return super().propose(wishes)

        # Right but for every third token: four drafted tokens make about two and a half a cycle.
        self.proposer = Proposer(lambda place: SCRIPT[place] if place % 3 else 63 - SCRIPT[place])
        self.policy = AdaptivePolicy(SHAPE, StepTimes(RowCosts({1: 1.0, 99: 1.0}), RowCosts({1: 0.05, 99: 0.05})))
        self.rig = rig(
            (Target(SCRIPT), None),
            proposer=self.proposer,
            policy=self.policy,
            shape=SHAPE,
            blocks=1200,
            clock=lambda: self.now,
        )

    def share_drafted(self, steps):
        """Share of the steps of the only sequence that drafted something."""
        drafted = 0
        for _ in range(steps):
            before = self.rig.sequence("0").stats.drafted
            self.rig.step()
            drafted += self.rig.sequence("0").stats.drafted > before
        return drafted / steps


def test_drafting_pays_and_goes_on():
    """Where rows cost nothing nearly every step drafts."""
    machine = Machine(row_s=0.0)
    machine.rig.add(request([1, 2], name="0", max_new_tokens=3900)).step(100)
    assert machine.share_drafted(200) > 0.9


def test_drafting_comes_back_after_plain_decoding():
    """R20: tokens that the draft missed while it was off are no cost of drafting: once it pays again, it comes back."""
    machine = Machine(row_s=5.0)
    machine.rig.add(request([1, 2], name="0", max_new_tokens=3900)).step(300)
    assert machine.share_drafted(200) < 0.05
    machine.row_s = 0.0
    machine.rig.step(150)
    assert machine.share_drafted(100) > 0.9


def test_load_does_not_make_the_draft_look_bad():
    """Where drafting does not pay, tau falls near 1, and the few cycles that draft show as before what they accept."""
    machine = Machine(row_s=5.0)
    # Retries come every 96 steps, so what is wrong must not: five has no factor in common with that.
    machine.proposer.guess = lambda place: SCRIPT[place] if place % 5 in (1, 3, 4) else 63 - SCRIPT[place]
    machine.rig.add(request([1, 2], name="0", max_new_tokens=3900)).step(300)
    before = machine.rig.engine.snapshot().stats
    machine.rig.step(1000)
    after = machine.rig.engine.snapshot().stats
    cycles, drafted = after.cycles - before.cycles, after.drafted_cycles - before.drafted_cycles
    assert 0 < drafted < 0.1 * cycles
    assert (after.cycle_tokens - before.cycle_tokens) / cycles < 1.1
    assert (after.drafted_cycle_tokens - before.drafted_cycle_tokens) / drafted > 1.5


def test_only_pure_steps_are_learnt_from():
    """Steps that read prompts, or in which someone gave way, say nothing about the cost of a cycle."""

    class Counting(RandomPolicy):
        recorded = 0

        def record(self, step):
            super().record(step)
            assert len(step.cycles) in (0, step.load)
            self.recorded += 1

    policy = Counting([SHAPE])
    engine = rig(
        (ScriptedTarget(SCRIPT), None),
        proposer=ScriptedProposer(lambda place: SCRIPT[place]),
        policy=policy,
        shape=SHAPE,
        step_tokens=16,
    )
    engine.add(request([1] * 4, max_new_tokens=100)).step(3)
    assert policy.recorded == 2
    engine.add(request([1] * 64, max_new_tokens=4)).step(4)
    assert policy.recorded == 2
    engine.step(2)
    assert policy.recorded == 4
    assert len(policy.seen) == 8


@pytest.mark.parametrize("with_draft", [True, False])
def test_calibration_measures_the_machine(with_draft, caplog):
    """Before the first request passes of growing size are timed, as far as the cache reaches, and logged."""
    asked = []

    class Runner:
        num_slots = 100

        def verify_seconds(self, rows):
            asked.append(rows)
            return 0.010 + 0.001 * rows + (0.5 if asked.count(rows) == 1 else 0.0)

        def draft_seconds(self, rows):
            return 0.001 if with_draft else 0.0

    with caplog.at_level("INFO"):
        policy = calibrated_policy(Runner(), TREE)
    assert sorted(set(asked)) == [1, 2, 4, 8, 16, 32, 64]
    assert "1: 11.0, 2: 12.0" in caplog.text
    # The first take of each size was disturbed; the least counts. Eleven rows cost 21 ms: ten nodes are too dear
    # for what is expected of them, or not, but something is drafted.
    assert policy.choose(1) is not None


def test_calibration_does_not_take_forever():
    """On a slow machine large passes are not measured: their cost follows from the smaller ones."""
    asked = []

    class Runner:
        num_slots = 10_000

        def verify_seconds(self, rows):
            asked.append(rows)
            return 0.1 * rows

        def draft_seconds(self, rows):
            return 0.01

    assert calibrated_policy(Runner(), TREE).choose(1) is None
    assert max(asked) == 4
    assert asked.count(4) == 2


def test_short_passes_are_measured_once_more():
    """Of passes that take no time worth saving three takes are compared, of longer ones two: one is never trusted."""
    asked = []

    class Runner:
        num_slots = 64

        def verify_seconds(self, rows):
            asked.append(rows)
            return 0.01 * rows

        def draft_seconds(self, rows):
            return 0.001

    calibrated_policy(Runner(), TREE)
    assert [asked.count(rows) for rows in (1, 4, 8, 32)] == [3, 3, 2, 2]

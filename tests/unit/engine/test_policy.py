"""How much is drafted at which load, on a machine and texts made of numbers."""

from __future__ import annotations

import random

import pytest

from eagle3.config.speculation import Speculation
from eagle3.engine.costs import RowCosts, StepTimes
from eagle3.engine.policy import AdaptivePolicy, DecodedStep, FixedPolicy, smaller_shapes
from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import verify

FULL = Speculation(depth=5, top_k=4, nodes=16)


class World:
    """Steps whose seconds follow from `fixed_s + row_s × rows`, and texts of which a share of tokens is guessed.

    A chain is right up to depth n with probability `right` to the power of n.
    """

    def __init__(self, *, fixed_s=1.0, row_s=0.0, draft_s=0.05, right=0.6, off_threshold=None, guessed=None):
        self.fixed_s, self.row_s, self.draft_s, self.right = fixed_s, row_s, draft_s, right
        costs = {rows: self.fixed_s + self.row_s * rows for rows in (1, 1024)}
        if guessed is not None:
            costs = guessed
        full = FULL.model_copy(update={"off_threshold": off_threshold})
        self.policy = AdaptivePolicy(full, StepTimes(RowCosts(costs), RowCosts({1: draft_s, 1024: draft_s})))
        self.choices = []
        self.emitted = self.plain_emitted = 0.0
        self.seconds = 0.0
        self._random = random.Random(1)

    def cost(self, load, shape):
        if shape is None:
            return self.fixed_s + self.row_s * load
        return self.fixed_s + self.row_s * load * (1 + shape.nodes) + self.draft_s * shape.depth

    def tau(self, shape):
        return 1.0 if shape is None else 1 + sum(self.right**n for n in range(1, shape.depth + 1))

    def rate(self, load, shape):
        return load * self.tau(shape) / self.cost(load, shape)

    def run(self, load, steps):
        """Let the policy decide and learn; returns what it chose."""
        chosen = []
        for _ in range(steps):
            shape = self.policy.choose(load)
            chosen.append(shape)
            cycles = [self.cycle(shape) for _ in range(load)] if shape else []
            self.seconds += self.cost(load, shape)
            self.emitted += sum(len(outcome.emitted_ids) for _, outcome in cycles) if shape else load
            self.policy.record(DecodedStep(load=load, shape=shape, seconds=self.cost(load, shape), cycles=cycles))
        self.choices += chosen
        return chosen

    def cycle(self, shape):
        """A chain of the shape's depth, and the rest of its nodes beside it."""
        accepted = 0
        while accepted < shape.depth and self._random.random() < self.right:
            accepted += 1
        tokens, parents, scores = [0], [0], [0.0]
        for depth in range(shape.depth):
            tokens.append(1)
            parents.append(depth)
            scores.append(-1.0 * (depth + 1))
        for extra in range(shape.nodes - shape.depth):
            tokens.append(2 + extra)
            parents.append(0)
            scores.append(-100.0)
        tree = DraftTree(token_ids=tuple(tokens), parents=tuple(parents), scores=tuple(scores))
        return tree, verify(tree, lambda _node, path: 1 if len(path) < accepted else 63)


def share(chosen, shape):
    return sum(one == shape for one in chosen) / len(chosen)


def settled(world, load, steps=600):
    """What is chosen once it has been measured."""
    world.run(load, 400)
    return world.run(load, steps)


def test_fixed_policy_is_fixed():
    """The same shape at any load, or none."""
    for shape in (FULL, None):
        policy = FixedPolicy(shape)
        assert [policy.choose(load) for load in (1, 3, 200)] == [shape] * 3
        policy.record(DecodedStep(load=1, shape=shape, seconds=1.0, cycles=[]))
        assert policy.prompt_tokens(5) is None


def test_cheap_rows_draft_the_full_tree():
    """Where a row costs nothing, as on an idle GPU, the whole tree is drafted."""
    chosen = settled(World(row_s=0.0, right=0.9), 1)
    assert share(chosen, None) < 0.03
    assert sum(shape is not None and shape.depth == FULL.depth for shape in chosen) > 0.9 * len(chosen)


@pytest.mark.parametrize("load", [1, 4, 32])
def test_dear_rows_draft_nothing(load):
    """R20: where a tree costs more than it accepts, decoding is plain but for rare retries."""
    world = World(fixed_s=0.01, row_s=1.0)
    chosen = settled(world, load)
    assert share(chosen, None) > 0.98


def test_never_slower_than_plain_by_more_than_three_per_cent():
    """R20: under any mix of costs and guesses, with loads going up and down, what is lost to trying is below 3 %."""
    for right in (0.0, 0.3, 0.8):
        for row_s in (0.0, 0.02, 0.2, 1.0):
            world = World(row_s=row_s, right=right)
            plain_s = 0.0
            for load in (1, 2, 8, 32, 8, 1):
                before = world.emitted
                world.run(load, 400)
                plain_s += (world.emitted - before) / world.rate(load, None)
            assert world.seconds < 1.03 * plain_s, (right, row_s)


@pytest.mark.parametrize("row_s", [0.0, 0.005, 0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("load", [1, 6])
def test_the_best_shape_is_found(row_s, load):
    """After some hundred steps the rate is within 5 % of the best of all shapes and of plain decoding."""
    world = World(row_s=row_s)
    world.run(load, 600)
    emitted, seconds = world.emitted, world.seconds
    world.run(load, 600)
    best = max(world.rate(load, shape) for shape in (*smaller_shapes(FULL), None))
    assert (world.emitted - emitted) / (world.seconds - seconds) > 0.95 * best


def test_speculation_has_to_win_by_a_margin():
    """A shape that gains one per cent is not worth the risk; one that gains ten is."""
    shape = Speculation(depth=1, top_k=1, nodes=1)
    for gain, wanted in ((1.01, None), (1.10, shape)):
        times = StepTimes(RowCosts({1: 1.0}), RowCosts({1: 1.0}))
        policy = AdaptivePolicy(shape, times)
        tree = DraftTree(token_ids=(0, 1), parents=(0, 0), scores=(0.0, -1.0))
        accepted = verify(tree, lambda node, _path: 1 if node == 0 else 63)
        for _ in range(3000):
            policy.acceptance.observe(shape, tree, accepted)
        for _ in range(20):
            policy.record(DecodedStep(load=1, shape=None, seconds=1.0, cycles=[]))
            policy.record(DecodedStep(load=1, shape=shape, seconds=2.0 / gain, cycles=[(tree, accepted)]))
        assert share([policy.choose(1) for _ in range(95)], wanted) > 0.95


def test_trying_something_else_is_rare():
    """Fewer than a tenth of the steps go to something else than those beside them, and fewer once all is known."""
    for row_s in (0.0, 0.02, 0.1, 1.0):
        world = World(row_s=row_s)
        shares = []
        for steps in (240, 1000, 960):
            chosen = world.run(1, steps)
            tried = sum(a == c != b for a, b, c in zip(chosen, chosen[1:], chosen[2:], strict=False))
            shares.append(tried / steps)
        assert max(shares) < 0.1
        assert shares[-1] < 0.03


def test_costs_that_change_are_noticed_while_drafting():
    """When trees become dear, a neighbour on the machine say, drafting shrinks or stops within some fifty steps."""
    world = World(row_s=0.0)
    settled(world, 1)
    world.row_s = 2.0
    world.run(1, 200)
    assert share(world.run(1, 96), None) > 0.9


def test_costs_that_change_are_noticed_while_plain():
    """When trees become cheap again, a retry every hundred steps finds out, and drafting comes back."""
    world = World(fixed_s=1.0, row_s=2.0)
    assert share(settled(world, 1), None) > 0.9
    world.row_s = 0.0
    world.run(1, 130)
    assert share(world.run(1, 96), None) < 0.1


def test_prompts_beside_decoding_make_nodes_dear():
    """Where rows are free up to eight and cost from there on, a tree pays alone and not beside rows of a prompt."""
    costs = {1: 1.0, 8: 1.0, 64: 8.0}
    policy = AdaptivePolicy(
        Speculation(depth=1, top_k=1, nodes=1), StepTimes(RowCosts(costs), RowCosts({1: 0.01, 64: 0.01}))
    )
    assert policy.choose(4) is not None
    assert policy.choose(4, 40) is None
    assert policy.choose(4) is not None


def test_prompts_beside_decoding_take_a_fifth_of_a_second():
    """Whoever waits for the next token waits no longer for prompts; with nobody waiting, the policy has no opinion."""
    costs = {1: 0.01, 16: 0.05, 64: 0.19, 128: 0.4}
    policy = AdaptivePolicy(FULL, StepTimes(RowCosts(costs), RowCosts(costs)))
    assert policy.prompt_tokens(0) is None
    assert policy.prompt_tokens(3) == 64


def test_texts_that_change_are_noticed():
    """Where guesses stop to come true drafting stops, and comes back with texts that are easy again."""
    world = World(row_s=0.05, right=0.8)
    assert share(settled(world, 1), None) < 0.1
    world.right = 0.0
    world.run(1, 1500)
    assert share(world.run(1, 96), None) > 0.9


def test_a_wrong_first_measurement_does_not_last():
    """If start-up measured nonsense, steps that were really run correct it, both ways."""
    dear = {1: 1.0, 2: 50.0, 64: 60.0}
    world = World(row_s=0.0, guessed=dear)
    world.run(1, 3000)
    assert share(world.run(1, 96), None) < 0.1
    cheap = {1: 1.0, 1024: 1.0}
    world = World(fixed_s=0.01, row_s=1.0, guessed=cheap)
    world.run(1, 300)
    assert share(world.run(1, 96), None) > 0.9


@pytest.mark.parametrize("threshold", [1, 4])
def test_nothing_is_drafted_above_the_threshold(threshold):
    """`off_threshold` is a command: above it nothing is drafted, not even to try; below it costs decide."""
    world = World(row_s=0.0, off_threshold=threshold)
    assert set(world.run(threshold + 1, 300)) == {None}
    assert share(world.run(threshold, 300), None) < 0.1


def test_nothing_decodes_nothing_is_drafted():
    """Asked for no load at all, the policy drafts nothing."""
    assert World().policy.choose(0) is None


def test_more_load_never_drafts_more_where_rows_cost():
    """R20: as the load grows and rows fill the machine, trees shrink, then vanish."""
    world = World(fixed_s=1.0, row_s=0.08, right=0.7)
    sizes = []
    for load in (1, 4, 16, 64):
        chosen = settled(world, load)
        usual = max(set(chosen), key=chosen.count)
        sizes.append(usual.nodes if usual else 0)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 1
    assert sizes[-1] == 0

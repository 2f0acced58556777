"""Whatever comes, goes and changes its mind: each answer is the one that its request gets alone."""

from __future__ import annotations

import functools

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import noisy_markov
from eagle3.config.speculation import Speculation
from engine_doubles import TREE, RandomPolicy, alone, request, rig

SHAPES = [None, TREE, Speculation(depth=3, top_k=1, nodes=3), Speculation(depth=2, top_k=5, nodes=7)]
SHAPES += [shape.model_copy(update={"min_probability": one}) for shape in SHAPES[1:3] for one in (0.2, 0.999)]
COMMON = [(13 * i + 2) % 64 for i in range(20)]
ENDINGS = (5, 33)


@functools.cache
def models(step):
    return noisy_markov(2, step=step)


# What is asked for: beginnings in common, cut inside and at the edges of blocks, greedy and seeded.
WISHES = [
    ({"prompt_ids": [*COMMON[:cut], *tail]} | values)
    for cut, tail, values in (
        (4, [], {"max_new_tokens": 9}),
        (8, [1], {"max_new_tokens": 16, "temperature": 0.9, "seed": 4}),
        (8, [2, 7], {"max_new_tokens": 16}),
        (9, [], {"max_new_tokens": 20, "speculate": False}),
        (16, [3], {"max_new_tokens": 5, "repetition_penalty": 1.2}),
        (20, [], {"max_new_tokens": 12, "temperature": 0.7, "seed": 4, "index": 1}),
        (20, [9], {"max_new_tokens": 1}),
        (0, [60, 61], {"max_new_tokens": 24, "temperature": 1.1, "seed": 8, "speculate": False}),
        (0, [50], {"max_new_tokens": 24, "stop_token_ids": (1, 22)}),
    )
]


@functools.cache
def expected(wish, step):
    return alone(models(step), request(**WISHES[wish]), ending_ids=ENDINGS)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, len(WISHES) - 1)),
        st.tuples(st.just("step"), st.integers(1, 3)),
        st.tuples(st.just("abort"), st.integers(0, 30)),
    ),
    min_size=5,
    max_size=40,
)


@settings(deadline=None, max_examples=100)
@given(
    operations=operations,
    blocks=st.integers(14, 40),
    step_tokens=st.integers(3, 24),
    max_running=st.integers(1, 6),
    prefix_reuse=st.booleans(),
    policy=st.one_of(st.none(), st.integers(0, 99)),
    drafters=st.sampled_from([("eagle3",), ("eagle3", "suffix"), ("suffix",)]),
    step=st.sampled_from([7, 16]),
)
def test_any_order_of_arrivals_steps_and_aborts(
    operations, blocks, step_tokens, max_running, prefix_reuse, policy, drafters, step
):
    """R12, R13, R17: over a small pool, with preemption and reuse, what finishes is right, and nothing leaks.

    Blocks and requests agree after every step and every abort. Whoever guesses, and however much texts repeat.
    """
    target, draft = models(step)
    engine = rig(
        (target, draft if "eagle3" in drafters else None),
        suffix="suffix" in drafters,
        blocks=blocks,
        step_tokens=step_tokens,
        max_running=max_running,
        prefix_reuse=prefix_reuse,
        ending_ids=ENDINGS,
        policy=None if policy is None else RandomPolicy(SHAPES, policy),
    )
    asked: dict[str, int] = {}
    aborted = set()
    for kind, number in operations:
        if kind == "add":
            name = str(len(asked))
            asked[name] = number
            engine.add(request(name=name, **WISHES[number]))
        elif kind == "abort":
            engine.engine.abort(str(number))
            if str(number) in asked and str(number) not in engine.answers:
                aborted.add(str(number))
            engine.engine.check_integrity()
        else:
            engine.step(number)
    engine.finish()
    assert not engine.errors
    assert engine.answers.keys() == asked.keys() - aborted
    for name, answer in engine.answers.items():
        assert answer.token_ids == expected(asked[name], step)
    for name in aborted:
        assert tuple(engine.token_ids[name]) == expected(asked[name], step)[: len(engine.token_ids[name])]
    assert engine.pool.held == 0
    assert engine.engine.snapshot().stats.output_tokens == sum(map(len, engine.token_ids.values()))

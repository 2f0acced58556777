"""Who runs in a step: order of arrival, fairness between long and short prompts, and what happens without room."""

from __future__ import annotations

import pytest

from builders import ScriptedProposer, ScriptedTarget
from eagle3.config.speculation import Speculation
from engine_doubles import request, rig

SCRIPT = [(11 * i + 3) % 64 for i in range(400)]


def scripted(**options):
    """An engine whose target answers by position, fast enough for hundreds of steps."""
    options = {"blocks": 100, "prefix_reuse": False, "shape": Speculation(depth=3, top_k=1, nodes=3)} | options
    return rig((ScriptedTarget(SCRIPT), None), proposer=ScriptedProposer(lambda place: SCRIPT[place]), **options)


def names(sequences):
    return [sequence.request.request_id for sequence in sequences]


def add(engine, **sizes):
    """Requests by name: (prompt tokens, answer tokens)."""
    for name, (prompt, answer) in sizes.items():
        engine.add(request([ord(name[0]) % 64] * prompt, name=name, max_new_tokens=answer))
    return engine


def chunk_sizes(engine):
    """The sizes of the chunks of the next plan by name; the plan is not run."""
    return {c.sequence.request.request_id: c.end - c.begin for c in engine.scheduler.plan(1).chunks}


def first_token_step(engine, most=200):
    """Step in which each request gets its first token."""
    found = {}
    while engine.engine.has_work and engine.steps < most:
        engine.step()
        for name, token_ids in engine.token_ids.items():
            if token_ids:
                found.setdefault(name, engine.steps)
    return found


def test_first_come_first_served():
    """No more run than may; the others wait in the order of arrival and take the places that become free."""
    engine = add(scripted(max_running=2), a=(3, 4), b=(3, 20), c=(3, 4), d=(3, 4)).step()
    assert names(engine.scheduler.running) == ["a", "b"]
    assert names(engine.scheduler.waiting) == ["c", "d"]
    engine.step(2)
    assert list(engine.answers) == ["a"]
    assert names(engine.scheduler.running) == ["b", "c"]
    engine.finish()
    assert set(engine.answers) == set("abcd")


def test_one_long_prompt_uses_the_whole_step():
    """With no one beside it, a prompt is read with all the tokens of a step."""
    engine = add(scripted(step_tokens=20), a=(50, 2))
    assert chunk_sizes(engine) == {"a": 20}


def test_a_long_prompt_leaves_half_of_a_step():
    """R11: short prompts that came behind a long one are read beside it, not after it."""
    engine = add(scripted(step_tokens=20), a=(300, 2), b=(6, 2), c=(3, 2), d=(9, 2))
    assert chunk_sizes(engine) == {"a": 10, "b": 6, "c": 3, "d": 1}
    found = first_token_step(engine)
    assert found["b"] == found["c"] == 1
    assert found["d"] == 2
    assert found["a"] < 24, "and the long one is done almost as soon as it would be alone"


def test_a_step_never_reads_more_than_its_tokens():
    """The chunks of a step add up to `step_tokens` at most, whoever waits."""
    engine = add(scripted(step_tokens=16), **dict.fromkeys("abcdef", (37, 3)))
    read = 0
    while engine.engine.has_work:
        plan_rows = sum(chunk_sizes(engine).values())
        assert plan_rows <= 16
        read += plan_rows
        engine.step()
    assert read == 6 * 37


def test_decoding_goes_on_while_a_long_prompt_is_read():
    """Every decoding sequence has its cycle in every step, however long the prompt beside it is."""
    engine = add(scripted(step_tokens=16), a=(3, 60), b=(4, 60)).step()
    add(engine, c=(160, 4))
    for _ in range(8):
        before = {name: len(engine.token_ids[name]) for name in "ab"}
        engine.step()
        assert engine.token_ids["c"] == []
        assert all(len(engine.token_ids[name]) == before[name] + 4 for name in "ab")


def test_the_last_to_come_gives_way():
    """Without room the youngest loses its blocks, keeps its tokens, and finishes later with the same answer."""
    engine = add(scripted(blocks=14, block_tokens=4), a=(8, 30), b=(8, 30), c=(8, 30))
    order = []
    while engine.engine.has_work:
        engine.step()
        if engine.scheduler.preemptions:
            order.append(names(engine.scheduler.running))
    assert engine.scheduler.preemptions > 0
    assert all("a" in running for running in order[:2])
    assert list(engine.answers) == ["a", "b", "c"], "the first to come are the first to finish"
    for answer in engine.answers.values():
        assert list(answer.token_ids) == SCRIPT[7:37]
    assert engine.pool.held == 0


def test_a_preempted_sequence_is_first_in_line():
    """Whoever gave way waits before those who have not run yet, and comes back before them: it cannot starve."""
    engine = add(scripted(blocks=14, max_running=3), a=(8, 30), b=(8, 30), c=(8, 30), d=(4, 4), e=(4, 4)).step()
    assert names(engine.scheduler.waiting) == ["d", "e"]
    while not engine.scheduler.preemptions and engine.steps < 60:
        engine.step()
    order = [*names(engine.scheduler.running), *names(engine.scheduler.waiting)]
    assert order == [name for name in "abcde" if name not in engine.answers]
    started = []
    while engine.engine.has_work:
        engine.step()
        started += [name for name in names(engine.scheduler.running) if name not in started]
    assert started.index("c") < started.index("d")
    assert set(engine.answers) == set("abcde")


def test_a_steady_stream_starves_no_one():
    """With new requests at every step, small and large, each finishes within the time that its turn takes."""
    engine = scripted(blocks=16, max_running=4, step_tokens=16)
    add(engine, victim=(30, 20))
    for number in range(120):
        add(engine, **{f"s{number}": (5 + number % 7, 6)})
        engine.step()
        if "victim" in engine.answers:
            break
    assert number < 20
    finished = [int(name[1:]) for name in engine.finish() if name != "victim"]
    assert all(abs(place - number) < 5 for place, number in enumerate(finished)), "in order, but for neighbours"


def test_no_newcomer_that_would_be_thrown_out_at_once():
    """Someone is admitted only if the ones that run can still grow: the pool is not filled to the last block."""
    engine = add(scripted(blocks=7, block_tokens=4), a=(12, 8), b=(12, 4)).step(2)
    assert names(engine.scheduler.running) == ["a"]
    assert names(engine.scheduler.waiting) == ["b"]
    engine.finish()
    assert engine.scheduler.preemptions == 0


def test_a_request_that_fills_the_pool_runs_alone():
    """A sequence that needs every block is admitted once the pool is empty, and finishes."""
    engine = add(scripted(blocks=10, block_tokens=4), a=(4, 8), b=(20, 16), c=(4, 4))
    engine.finish()
    assert set(engine.answers) == set("abc")
    assert list(engine.answers["b"].token_ids) == SCRIPT[19:35]


@pytest.mark.parametrize("when", ["waiting", "reading", "decoding"])
def test_removing_frees_what_was_held(when):
    """An abort at any time gives back every block, and nothing more is said of the request."""
    engine = add(scripted(max_running=1 if when == "waiting" else 2, step_tokens=16), a=(3, 9), b=(40, 30)).step(
        5 if when == "decoding" else 1
    )
    waiting, running = names(engine.scheduler.waiting), names(engine.scheduler.running)
    assert "b" in (waiting if when == "waiting" else running)
    engine.engine.abort("b")
    engine.engine.abort("b")
    engine.engine.abort("never heard of")
    engine.engine.check_integrity()
    engine.finish()
    assert list(engine.answers) == ["a"]
    assert "b" not in engine.errors
    assert engine.pool.held == 0

"""Where time goes in a cycle: the timer of nested parts, the floors, and the profile of a real engine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from builders import ChatTokenizer, markov_draft_checkpoint, markov_target
from eagle3.bench.peers import profile as profiles
from eagle3.bench.peers.floors import Floors, measure_floors
from eagle3.bench.peers.part_timer import PartTimer
from eagle3.bench.peers.profile import BETWEEN, CHOOSE, DRAFT, PRODUCTS, TARGET, TREE, profile_llm
from eagle3.bench.peers.profile_report import profile_json, profile_markdown
from eagle3.config.speculation import Speculation
from eagle3.engine.batch import BatchEngine
from eagle3.engine.llm import LLM
from eagle3.models.draft_loader import build_draft
from eagle3.models.packed import PackedLinear, pack_linears
from peers_doubles import task

FLOORS = Floors(bytes_per_s=1e9, flop_per_s=2e9, int8_flop_per_s=8e9)


def test_a_second_belongs_to_the_innermost_part():
    """Outer takes 1 + 2 s around an inner of 4 s; the inner is named after what it runs in, by itself if in nothing."""
    now = [0.0]
    work = SimpleNamespace()

    def inner():
        now[0] += 4.0

    def outer():
        now[0] += 1.0
        work.inner()
        now[0] += 2.0
        return "done"

    work.inner, work.outer = inner, outer
    timer = PartTimer(lambda: now[0])
    timer.wrap(work, "inner", "leaf", inner=True)
    timer.wrap(work, "outer", "trunk")
    assert work.outer() == "done"
    work.inner()
    assert timer.seconds == {"trunk": 3.0, "trunk / leaf": 4.0, "leaf": 4.0}
    assert timer.calls == {"trunk": 1, "trunk / leaf": 1, "leaf": 1}
    timer.close()
    assert (work.inner, work.outer) == (inner, outer)


def test_a_failing_function_is_timed_and_fails():
    """Its error goes on, and what runs after it is not taken for its inside."""
    now = [0.0]
    work = SimpleNamespace()

    def fails():
        now[0] += 1.0
        raise ValueError("as usual")

    work.fails = fails
    timer = PartTimer(lambda: now[0])
    timer.wrap(work, "fails", "part")
    for _ in range(2):
        with pytest.raises(ValueError, match="as usual"):
            work.fails()
    assert timer.seconds == {"part": 2.0}


def test_a_floor_is_the_longer_of_reading_and_computing():
    """A thin product is bound by its bytes, a thick one by its sums; int8 has a peak of its own."""
    assert FLOORS.seconds(weight_bytes=10**9, flop=10**9, int8=False) == pytest.approx(1.0)
    assert FLOORS.seconds(weight_bytes=10**9, flop=10**10, int8=False) == pytest.approx(5.0)
    assert FLOORS.seconds(weight_bytes=10**9, flop=10**10, int8=True) == pytest.approx(1.25)


@pytest.mark.slow
def test_the_machine_has_floors():
    """Bytes and sums per second are measured, and are at least those of the slowest machine in use."""
    floors = measure_floors()
    assert floors.bytes_per_s > 1e8
    assert floors.flop_per_s > 1e8


def test_every_place_that_is_timed_exists():
    """Each name is defined where it is looked up; a renamed function must be renamed here."""
    for _, place, attributes in profiles._PARTS:
        for attribute in attributes:
            assert attribute in vars(profiles._found(place)), f"{place} {attribute}"


def make_llm(draft):
    target = markov_target()
    model = build_draft(markov_draft_checkpoint(), target, source="test") if draft else None
    for module in (target, model):
        if module is not None:
            pack_linears(module)
    return LLM(target, ChatTokenizer(), model, Speculation(depth=3, top_k=1, nodes=3))


@pytest.mark.parametrize("draft", [True, False])
def test_the_parts_of_a_cycle_add_up(draft):
    """Every second of a cycle is in a part; a right draft of three gives four tokens; a plain cycle has no draft."""
    step = BatchEngine.step
    profile = profile_llm(lambda: make_llm(draft), "ours", task([[1, 4], [3]], max_tokens=9), FLOORS)
    parts = {part.name: part for part in profile.parts}
    assert sum(part.seconds for part in profile.parts) == pytest.approx(profile.cycle_s, rel=0.2)
    assert profile.tokens == 16
    assert (profile.cycles, profile.rows) == ((4, 4.0) if draft else (16, 1.0))
    assert {f"{TARGET} / {PRODUCTS}", CHOOSE, BETWEEN} <= set(parts)
    assert (f"{DRAFT} / {PRODUCTS}" in parts) == (TREE in parts) == draft
    assert parts[f"{TARGET} / {PRODUCTS}"].floor_s > 0
    assert parts[CHOOSE].floor_s is None
    assert 0 < profile.overhead < 1
    assert BatchEngine.step is step
    assert PackedLinear.rows.__name__ == "rows"
    assert not hasattr(PackedLinear.rows, "__wrapped__")


def test_the_floor_of_a_product_is_its_own():
    """Two rows of a 4 × 8 product read 128 bytes and make 128 sums."""
    measured = profiles.CycleTimer(FLOORS)
    linear = PackedLinear(nn.Linear(4, 8, bias=False))
    measured._product("x", (linear, torch.zeros(2, 4)))
    assert measured._step_floor_s == {"x": pytest.approx(max(128 / 1e9, 128 / 2e9))}


def test_the_report_of_a_profile():
    """Times in milliseconds, shares and floors; the JSON carries seconds and the share of overhead."""
    profile = profiles.Profile(
        system="ours", cycles=10, tokens=25, rows=17.0, cycle_s=0.010, floors=FLOORS,
        parts=(
            profiles.Part(name=f"{TARGET} / {PRODUCTS}", seconds=0.009, calls=121.0, floor_s=0.004),
            profiles.Part(name=TREE, seconds=0.001, calls=6.0, floor_s=None),
        ),
    )  # fmt: skip
    text = profile_markdown([profile])
    assert "**ours**: 10.0 ms a cycle (floor 4.0), 2.50 tokens, 17.0 rows, 10 cycles" in text
    assert "Python take 10%" in text
    assert f"| {TARGET} / {PRODUCTS} | 9.00 | 90% | 121.0 | 4.00 |" in text
    assert f"| {TREE} | 1.00 | 10% | 6.0 | - |" in text
    (found,) = profile_json([profile])
    assert found["overhead"] == pytest.approx(0.1)
    assert profile_markdown([]) == ""

"""Laws of the row in front of the engine, for any sequence of arrivals, ends, departures and engine states."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eagle3.errors import InvalidInputError, OverloadedError
from eagle3.server.admission import Admission, Place

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from("abc"), st.integers(1, 4)),
        st.tuples(st.just("finish"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("engine"), st.booleans(), st.just(0)),
        st.tuples(st.just("refuse"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(steps=STEPS, concurrency=st.integers(1, 4), queue=st.integers(0, 6))
def test_places_are_bounded_fair_and_given_back(steps: list[Any], concurrency: int, queue: int) -> None:
    """Counts stay within their limits, each tenant is served in order, nobody who may run waits, all is given back."""

    async def play() -> None:
        ready = True
        admission = Admission(concurrency=concurrency, queue=queue, is_open=lambda: ready, clock=lambda: 0.0)
        places: list[Place] = []
        for what, value, count in steps:
            running = [place for place in places if place.running]
            waiting = [place for place in places if not place.granted.done()]
            match what:
                case "enter":
                    free = concurrency - len(running) if ready else 0
                    fits = len(waiting) + count - free <= queue
                    try:
                        entered = admission.enter(value, count)
                    except OverloadedError:
                        assert not fits
                    except InvalidInputError:
                        assert count > concurrency + queue
                    else:
                        assert fits
                        assert len(entered) == count
                        places += entered
                case "finish" if running:
                    place = running[value % len(running)]
                    place.leave()
                    place.leave()
                case "cancel" if waiting:
                    waiting[value % len(waiting)].granted.cancel()
                    waiting[value % len(waiting)].leave()
                case "engine":
                    ready = value
                    admission.dispatch()
                case "refuse":
                    admission.refuse_waiting(lambda: OverloadedError("no", retry_after_s=1))
            admission.check_integrity()
            left = [place for place in places if not place.granted.done()]
            assert admission.waiting == len(left)
            assert admission.running == sum(place.running for place in places)
            if ready:
                assert not left or admission.running == concurrency, "nobody waits beside a free place"
            for tenant in "abc":
                mine = [place for place in places if place.tenant == tenant and not place.granted.cancelled()]
                waits = [not place.granted.done() for place in mine]
                assert waits == sorted(waits), "first in, first out"
        ready = True
        admission.dispatch()
        for _ in range(len(places) + 1):
            for place in places:
                if place.running:
                    place.leave()
        assert (admission.waiting, admission.running) == (0, 0), "nobody starves"

    asyncio.run(play())


@given(flood=st.integers(2, 20), place=st.integers(1, 3))
def test_a_flood_costs_another_tenant_one_turn(flood: int, place: int) -> None:
    """Whoever comes after another tenant's flood waits for one of its requests at most, and for those that run."""

    async def play() -> None:
        admission = Admission(concurrency=place, queue=100, is_open=lambda: True, clock=lambda: 0.0)
        running = admission.enter("running", place)
        admission.enter("flood", flood)
        single = admission.enter("single", 1)[0]
        running[0].leave()
        if not single.running:
            first = next(iter(running[1:]), None)
            if first is not None:
                first.leave()
            else:
                assert admission.waiting == flood
                return
        assert single.running

    asyncio.run(play())

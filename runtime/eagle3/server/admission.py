"""Who may enter the engine, and in which order the others wait.

At most `concurrency` requests are in the engine. The rest wait, first in first out for each tenant, and tenants take
turns, so that one tenant's flood costs the others one place in the row and no more. At most `queue` wait in total; a
group that does not fit is refused as a whole. While `is_open` says no (the engine loads), everyone waits.
Knows neither engine nor HTTP; belongs to one event loop, and no method suspends.
Invariant: 0 ≤ running ≤ concurrency, 0 ≤ waiting ≤ queue, and every place is given back exactly once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum

from eagle3.errors import InvalidInputError, OverloadedError
from eagle3.server.completion_rate import CompletionRate


class _Stage(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    LEFT = "left"


class Place:
    """One request's place: `await turn()`, work, and `leave()` in any case."""

    def __init__(self, tenant: str, leave: Callable[[Place], None]) -> None:
        self.tenant = tenant
        self.stage = _Stage.WAITING
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = leave

    @property
    def running(self) -> bool:
        """Whether the request may be in the engine now."""
        return self.stage is _Stage.RUNNING

    async def turn(self) -> None:
        """Return when the request may enter the engine; raises what `refuse_waiting` was given."""
        await self.granted

    def leave(self) -> None:
        """Give the place back, from the queue or from the engine; further calls do nothing."""
        self._leave(self)


class Admission:
    """The row in front of the engine."""

    def __init__(
        self, *, concurrency: int, queue: int, is_open: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._concurrency = concurrency
        self._queue = queue
        self._is_open = is_open
        self._clock = clock
        self._rows: OrderedDict[str, deque[Place]] = OrderedDict()  # the tenant whose turn it is comes first
        self._waiting = 0
        self._running = 0
        self._rate = CompletionRate()

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._waiting

    @property
    def running(self) -> int:
        """Requests in the engine."""
        return self._running

    def enter(self, tenant: str, count: int) -> list[Place]:
        """Places for `count` requests, all or none; OverloadedError when they would wait beyond the limit."""
        most = self._concurrency + self._queue
        if count > most:
            raise InvalidInputError(
                f"the request asks for {count} answers at once; this server takes at most {most} "
                f"(limits.concurrency {self._concurrency} + limits.queue {self._queue}); ask for fewer"
            )
        self.dispatch()
        free = self._concurrency - self._running if self._is_open() else 0
        if self._waiting + count - free > self._queue:
            retry_after_s = self._rate.seconds_for(self._waiting + count, self._clock())
            raise OverloadedError(
                f"{self._waiting} requests wait already and limits.queue allows {self._queue}; "
                f"try again in {retry_after_s} s",
                retry_after_s=retry_after_s,
            )
        places = [Place(tenant, self._left) for _ in range(count)]
        self._rows.setdefault(tenant, deque()).extend(places)
        self._waiting += count
        self.dispatch()
        return places

    def dispatch(self) -> None:
        """Let in whoever may enter; to be called when `is_open` has changed."""
        while self._waiting and self._running < self._concurrency and self._is_open():
            tenant, row = next(iter(self._rows.items()))
            place = row.popleft()
            if row:
                self._rows.move_to_end(tenant)
            else:
                del self._rows[tenant]
            self._waiting -= 1
            self._running += 1
            place.stage = _Stage.RUNNING
            if not place.granted.done():  # whoever waited may have been cancelled and not have left yet
                place.granted.set_result(None)

    def refuse_waiting(self, make_error: Callable[[], Exception]) -> None:
        """End the wait of everyone with an error; who is in the engine stays."""
        rows = list(self._rows.values())
        self._rows.clear()
        self._waiting = 0
        for row in rows:
            for place in row:
                place.stage = _Stage.LEFT
                if not place.granted.done():
                    place.granted.set_exception(make_error())
                    place.granted.exception()  # looked at: nobody may be left to await it

    def check_integrity(self) -> None:
        """Assert the invariants; for tests."""
        in_rows = [place for row in self._rows.values() for place in row]
        assert len(in_rows) == self._waiting <= self._queue
        assert all(place.stage is _Stage.WAITING for place in in_rows)
        assert all(row for row in self._rows.values()), "a tenant without requests keeps no row"
        assert all(place.tenant == tenant for tenant, row in self._rows.items() for place in row)
        assert 0 <= self._running <= self._concurrency

    def _left(self, place: Place) -> None:
        if place.stage is _Stage.RUNNING:
            self._running -= 1
            self._rate.finished(self._clock())
        elif place.stage is _Stage.WAITING:
            row = self._rows[place.tenant]
            row.remove(place)
            if not row:
                del self._rows[place.tenant]
            self._waiting -= 1
        place.stage = _Stage.LEFT
        self.dispatch()

"""Keeps one child alive: starts it, waits until it answers, starts it again when it ends, gives up in the end.

Knows neither processes nor models: a `Child` is whatever `launch` returns. Invariant: at most one child exists at
a time, every `on_ready` is followed by exactly one `on_exit`, and a child is stopped before the next is launched.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from eagle3.engine.interface import EngineState
from eagle3.errors import Eagle3Error, EngineUnavailableError

_log = logging.getLogger(__name__)

BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


class Child(Protocol):
    """One run of something that can end by itself."""

    async def wait_ready(self) -> None:
        """Return once it answers.

        EngineUnavailableError: it did not come up, another try may. Any other Eagle3Error is a fault of
        configuration or weights that another try cannot cure.
        """
        ...

    async def wait_exit(self) -> str:
        """Return why it ended, such as `exit code 137 (killed)`; raise the Eagle3Error of a permanent fault."""
        ...

    async def stop(self) -> None:
        """End it and free what it holds; does nothing if it has ended. May be called twice."""
        ...


ChildT = TypeVar("ChildT", bound=Child)


class Supervisor(Generic[ChildT]):
    """Runs `launch` again and again until it is stopped or must give up.

    A start that fails and a child that ends within `stable_after_s` count as consecutive failures: each waits
    longer (`backoff_s`, the last value repeats), and `max_failed_starts` of them make it FAILED. `on_ready` and
    `on_exit` are called between two turns of the event loop and must not block.
    """

    def __init__(
        self,
        launch: Callable[[], Awaitable[ChildT]],
        *,
        start_timeout_s: float,
        backoff_s: Sequence[float] = BACKOFF_S,
        stable_after_s: float = 60.0,
        max_failed_starts: int = 5,
        on_ready: Callable[[ChildT], None] | None = None,
        on_exit: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        assert backoff_s, "at least one waiting time"
        assert max_failed_starts >= 1, "at least one start"
        self._launch = launch
        self._start_timeout_s = start_timeout_s
        self._backoff_s = tuple(backoff_s)
        self._stable_after_s = stable_after_s
        self._max_failed_starts = max_failed_starts
        self._on_ready = on_ready
        self._on_exit = on_exit
        self._clock = clock
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._state = EngineState.LOADING
        self._fault: Eagle3Error | None = None
        self._launches = 0
        self.reason: str | None = None
        """Why it is FAILED or STOPPED, or why it is LOADING again."""
        self.child: ChildT | None = None
        """The child that answers; None unless READY."""

    @property
    def state(self) -> EngineState:
        """LOADING before the first start, too."""
        return self._state

    @property
    def restarts(self) -> int:
        """Launches after the first."""
        return max(0, self._launches - 1)

    async def start(self) -> None:
        """Begin; returns at once. Does nothing when started before."""
        if self._task is None and self._state is EngineState.LOADING:
            self._task = asyncio.create_task(self._run(), name="supervisor")

    async def wait_ready(self) -> None:
        """Return when READY; EngineUnavailableError when FAILED or STOPPED."""
        await self._settled.wait()
        if self._state is not EngineState.READY:
            raise EngineUnavailableError(self.reason or f"the engine is {self._state.value}") from self._fault

    async def stop(self) -> None:
        """Stop the child and become STOPPED, whatever the state was; may be called twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        if self._state is not EngineState.STOPPED:
            self._enter(EngineState.STOPPED, "the engine was stopped")

    async def _run(self) -> None:
        try:
            await self._lives()
        except Exception as error:  # a fault of ours, not the child's: shown as the reason and in the log
            _log.exception("the engine cannot be watched over")
            self._fail(f"the engine cannot be watched over: {type(error).__name__}: {error}", None)

    async def _lives(self) -> None:
        failures = 0
        while True:
            stable, fault = await self._one_life()
            failures = 1 if stable else failures + 1
            reason = str(fault)
            if not isinstance(fault, EngineUnavailableError):
                self._fail(reason, fault)
                return
            if failures >= self._max_failed_starts:
                self._fail(f"{reason} ({failures} failures one after the other; it is not started again)", fault)
                return
            wait_s = self._backoff_s[min(failures, len(self._backoff_s)) - 1]
            self._enter(EngineState.LOADING, f"{reason}; it is started again")
            _log.warning("%s; it is started again in %g s", reason, wait_s)
            await self._sleep(wait_s)

    async def _one_life(self) -> tuple[bool, Eagle3Error]:
        """Launch a child and see it through; returns whether it was stable, and what ended it."""
        self._launches += 1
        try:
            child = await self._launch()
        except Eagle3Error as error:
            return False, error
        try:
            fault = await self._until_ready(child)
            if fault is not None:
                return False, fault
            return await self._until_exit(child)
        finally:
            await child.stop()

    async def _until_ready(self, child: ChildT) -> Eagle3Error | None:
        ready = asyncio.ensure_future(child.wait_ready())
        ended = asyncio.ensure_future(child.wait_exit())
        late = asyncio.ensure_future(self._sleep(self._start_timeout_s))
        waiting: set[asyncio.Future[Any]] = {ready, ended, late}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                try:
                    ready.result()
                except Eagle3Error as error:
                    return error
                return None
            if ended.done():
                try:
                    return EngineUnavailableError(f"the engine ended while starting: {ended.result()}")
                except Eagle3Error as error:
                    return error
            return EngineUnavailableError(
                f"the engine was not ready after {self._start_timeout_s:g} s; raise engine.start_timeout_s if it "
                "only needs longer"
            )
        finally:
            for future in waiting:
                future.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _until_exit(self, child: ChildT) -> tuple[bool, Eagle3Error]:
        ready_at = self._clock()
        self.child = child
        self._enter(EngineState.READY, None)
        state, reason = EngineState.STOPPED, "the engine was stopped"
        try:
            if self._on_ready is not None:
                self._on_ready(child)
            reason = f"the engine ended: {await child.wait_exit()}"
            state = EngineState.LOADING
        finally:
            # In this order, so that nobody takes the dead child for a live one while its requests are told.
            self.child = None
            self._enter(state, reason)
            if self._on_exit is not None:
                self._on_exit(reason)
        return self._clock() - ready_at >= self._stable_after_s, EngineUnavailableError(reason)

    def _fail(self, reason: str, fault: Eagle3Error | None) -> None:
        self._fault = fault
        _log.error("the engine failed: %s", reason)
        self._enter(EngineState.FAILED, reason)

    def _enter(self, state: EngineState, reason: str | None) -> None:
        self._state, self.reason = state, reason
        if state is EngineState.LOADING:
            self._settled.clear()
        else:
            self._settled.set()

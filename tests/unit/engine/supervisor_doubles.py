"""A scripted child and a clock that stands still until someone sleeps: the supervisor's tests take no time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from eagle3.errors import Eagle3Error


class FakeTime:
    """Sleeps end when `advance` passes them; `slept` lists what was asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        event = asyncio.Event()
        self._sleepers.append((self.now + seconds, event))
        await event.wait()

    async def advance(self, seconds: float) -> None:
        """Let the time pass, then let everyone run who waited for it."""
        self.now += seconds
        for at, event in self._sleepers:
            if at <= self.now:
                event.set()
        await settle()


class FakeChild:
    """Ready at once, never, or with an error; ends when told."""

    def __init__(self, ready: Eagle3Error | Exception | str | None = None) -> None:
        self._ready = ready
        self._exit: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.stops = 0

    async def wait_ready(self) -> None:
        if self._ready == "never":
            await asyncio.Event().wait()
        if isinstance(self._ready, Exception):
            raise self._ready

    async def wait_exit(self) -> str:
        return await asyncio.shield(self._exit)

    async def stop(self) -> None:
        self.stops += 1

    def die(self, reason: str) -> None:
        self._exit.set_result(reason)


class Launcher:
    """Hands out children in order, the last kind again and again."""

    def __init__(self, script: Sequence[Eagle3Error | Exception | str | None]) -> None:
        self._script = list(script)
        self.children: list[FakeChild] = []

    async def __call__(self) -> FakeChild:
        kind = self._script[min(len(self.children), len(self._script) - 1)]
        self.children.append(FakeChild(kind))
        return self.children[-1]


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(30):
        await asyncio.sleep(0)

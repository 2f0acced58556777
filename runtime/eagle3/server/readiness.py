"""Whether the model answers: follows the engine's state and asks it for one token whenever it has become ready.

Knows no HTTP and no queue. Invariant: `ready` is true only while the engine says READY and has answered a probe since
it last became so.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import cast

from eagle3.engine.interface import Delta, Engine, EngineState, GenerationRequest
from eagle3.errors import Eagle3Error, EngineUnavailableError
from eagle3.sampling.params import SamplingParams

logger = logging.getLogger(__name__)

_POLL_S = 0.05
_RETRY_S = 1.0
_PROBE_TIMEOUT_S = 60.0


class Readiness:
    """The engine as the outside may know it."""

    def __init__(
        self,
        engine: Engine,
        *,
        probe_ids: Sequence[int],
        on_ready: Callable[[], None],
        on_gone: Callable[[], None],
    ) -> None:
        """`on_ready` is called soon after `ready` became true, and again and again while it is: an engine may crash
        and come back between two looks. `on_gone` is called once, when the engine has given up.
        """
        self._engine = engine
        self._probe_ids = tuple(probe_ids)
        self._on_ready = on_ready
        self._on_gone = on_gone
        self._probed = False
        self._probe_fault: str | None = None
        self._numbers = itertools.count()

    @property
    def ready(self) -> bool:
        """Whether requests are answered."""
        return self._probed and self._engine.state is EngineState.READY

    @property
    def reason(self) -> str:
        """Why it is not ready; empty when it is."""
        if self.ready:
            return ""
        state = self._engine.state
        said = f": {self._engine.reason}" if self._engine.reason else ""
        if state is EngineState.READY:
            return self._probe_fault or "the engine has not answered its first token yet"
        return f"the engine is {state.value}{said}" if state is not EngineState.FAILED else f"the engine failed{said}"

    async def follow(self) -> None:
        """Watch the engine until it has given up or stopped."""
        while True:
            try:
                await self._engine.wait_ready()
            except EngineUnavailableError as error:
                logger.error("the engine is gone: %s", error)
                self._on_gone()
                return
            if await self._probe():
                self._probed = True
                self._probe_fault = None
                logger.info("ready")
                while self._engine.state is EngineState.READY:
                    self._on_ready()
                    await asyncio.sleep(_POLL_S)
                self._probed = False
                logger.warning("not ready: %s", self.reason)
            else:
                await asyncio.sleep(_RETRY_S)

    async def _probe(self) -> bool:
        request = GenerationRequest(
            request_id=f"probe-{next(self._numbers)}",
            prompt_ids=self._probe_ids,
            params=SamplingParams(max_new_tokens=1),
        )
        try:
            # AsyncIterator has no aclose, but the interface asks for one.
            deltas = cast(AsyncGenerator[Delta, None], self._engine.generate(request))
            async with asyncio.timeout(_PROBE_TIMEOUT_S), aclosing(deltas):
                async for delta in deltas:
                    if delta.answer is not None:
                        return True
            raise EngineUnavailableError("its answer has no end")
        except (Eagle3Error, TimeoutError) as error:
            self._probe_fault = f"the engine does not answer: {str(error) or type(error).__name__}"
            logger.warning("%s", self._probe_fault)
            return False

"""A scripted engine, and what else stands for the heavy parts behind the server; nothing here loads a model."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from typing import Any

from builders import StandIn
from eagle3.engine.answer import Answer
from eagle3.engine.interface import Delta, EngineInfo, EngineSnapshot, EngineState, GenerationRequest
from eagle3.engine.stats import DecodeStats
from eagle3.errors import EngineUnavailableError

CONTEXT_TOKENS = 512
VOCAB_SIZE = 260


class ScriptedEngine(StandIn):
    """Answers every prompt with letters that depend on it alone, one a step; remembers what was asked of it.

    `step_s` is the pause before each letter; while `held` is set, nothing moves. `crash()` fails what runs and puts
    the engine into LOADING; `become_ready()` ends that.
    """

    def __init__(self, *, step_s: float = 0.0, length: int | None = None, ready: bool = True) -> None:
        self.step_s = step_s
        self.length = length
        self.state = EngineState.LOADING
        self.reason: str | None = None
        self.info: EngineInfo | None = None
        self.held = asyncio.Event()
        self.held.set()
        self.started: list[str] = []
        self.finished: list[str] = []
        self.cancelled: list[str] = []
        self.running: dict[str, GenerationRequest] = {}
        self.most_running = 0
        self.fails: dict[str, Exception] = {}
        self.stops = 0
        self._ready_at_start = ready
        self._changed = asyncio.Event()
        self._epoch = 0
        self._tokens = 0

    async def start(self) -> None:
        """Become READY at once, unless told otherwise."""
        if self._ready_at_start:
            self.become_ready()

    def become_ready(self) -> None:
        """READY from now on."""
        self.info = EngineInfo(
            engine="scripted 1.0", target="scripted", draft=None, context_tokens=CONTEXT_TOKENS, vocab_size=VOCAB_SIZE
        )
        self._become(EngineState.READY, None)

    def crash(self, reason: str = "killed") -> None:
        """Lose what runs and load again."""
        self._epoch += 1
        self._become(EngineState.LOADING, reason)

    def give_up(self, reason: str = "crashed too often") -> None:
        """FAILED from now on."""
        self._epoch += 1
        self._become(EngineState.FAILED, reason)

    async def wait_ready(self) -> None:
        """Return when READY."""
        while self.state is EngineState.LOADING:
            self._changed.clear()
            await self._changed.wait()
        if self.state is not EngineState.READY:
            raise EngineUnavailableError(f"the engine {self.state.value}: {self.reason}")

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Delta]:
        """Letters of the answer, then the whole of it."""
        if self.state is not EngineState.READY:
            raise EngineUnavailableError(f"the engine is {self.state.value}")
        epoch = self._epoch
        self.started.append(request.request_id)
        self.running[request.request_id] = request
        self.most_running = max(self.most_running, len(self.running))
        text = ""
        try:
            if request.request_id in self.fails:
                raise self.fails[request.request_id]
            count = min(request.params.max_new_tokens, self.length or request.params.max_new_tokens)
            for step in range(count):
                await asyncio.sleep(self.step_s)
                await self.held.wait()
                if epoch != self._epoch:
                    raise EngineUnavailableError("the engine crashed")
                letter = _letter(request, step)
                text += letter
                self._tokens += 1
                last = step == count - 1
                answer = None
                if last:
                    answer = _answer(text, "length" if self.length is None else "stop")
                    self.finished.append(request.request_id)
                yield Delta(request_id=request.request_id, text=letter, token_ids=(ord(letter),), answer=answer)
        finally:
            del self.running[request.request_id]
            if request.request_id not in self.finished and epoch == self._epoch:
                self.cancelled.append(request.request_id)

    async def snapshot(self) -> EngineSnapshot:
        """Counters of what was done."""
        return EngineSnapshot(stats=DecodeStats(output_tokens=self._tokens), running=len(self.running))

    async def stop(self) -> None:
        """STOPPED from now on."""
        self.stops += 1
        self._epoch += 1
        self._become(EngineState.STOPPED, None)

    def _become(self, state: EngineState, reason: str | None) -> None:
        self.state = state
        self.reason = reason
        self._changed.set()


def _letter(request: GenerationRequest, step: int) -> str:
    salt = 0 if request.params.temperature == 0.0 else (request.params.seed or 0) + request.index
    return chr(ord("a") + zlib.crc32(repr((request.prompt_ids, step, salt)).encode()) % 26)


def _answer(text: str, reason: Any) -> Answer:
    return Answer(
        text=text,
        token_ids=tuple(ord(letter) for letter in text),
        finish_reason=reason,
        logprobs=None,
        stats=DecodeStats(output_tokens=len(text)),
    )

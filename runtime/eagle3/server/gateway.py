"""The way from the routes to the engine: response cache, admission, deadlines, cancellation and measurements.

Knows no HTTP. Belongs to one event loop.
Invariant: whatever happens to the reader, the engine or the clock, every place taken in the queue or in the engine is
given back exactly once, and every reader gets its last deltas or an exception.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import cast

from eagle3.config.limits import Limits
from eagle3.engine.answer import Answer
from eagle3.engine.interface import Delta, Engine, EngineInfo, EngineState, GenerationRequest
from eagle3.errors import DeadlineError, EngineUnavailableError
from eagle3.metrics.registry import Metrics
from eagle3.models.tokenizer import Tokenizer
from eagle3.server.admission import Admission, Place
from eagle3.server.delta_buffer import DeltaBuffer
from eagle3.server.errors import DrainingError
from eagle3.server.readiness import Readiness
from eagle3.server.response_cache import ResponseCache
from eagle3.server.target_facts import TargetFacts

_DRAINING = "the server is shutting down and takes on nothing new; ask another one"


class _Stream:
    """One client's request while it is being answered."""

    def __init__(self, arrived_s: float) -> None:
        self.arrived_s = arrived_s
        self.buffer = DeltaBuffer()
        self.tasks: dict[int, asyncio.Task[None]] = {}  # by position, while the answer is not finished
        self.cut_by = "cancelled"  # outcome in the metrics of what is not finished

    def end(self, error: Exception, outcome: str) -> None:
        """Stop every answer that is not finished; the reader gets `error` after what was made already."""
        self.cut_by = outcome
        self.buffer.fail(error)
        self.cancel()

    def cancel(self) -> None:
        """Stop every answer that is not finished."""
        for task in self.tasks.values():
            task.cancel()


class Gateway:
    """One engine behind one queue."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        limits: Limits,
        metrics: Metrics,
        facts: TargetFacts,
        *,
        cache: ResponseCache,
        created: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`created` is the model's time stamp in the API, seconds since 1970."""
        self.tokenizer = tokenizer
        self.limits = limits
        self.created = created
        self.model_name = facts.name
        self._facts = facts
        self.vocab_size = facts.vocab_size
        self._engine = engine
        self._metrics = metrics
        self._cache = cache
        self._clock = clock
        self._streams: set[_Stream] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._draining = False
        self.admission = Admission(
            concurrency=limits.concurrency, queue=limits.queue, is_open=lambda: self.ready, clock=clock
        )
        self._readiness = Readiness(
            engine,
            probe_ids=tokenizer.encode("Hello")[:1] or [0],
            on_ready=self.admission.dispatch,
            on_gone=lambda: self.admission.refuse_waiting(self._gone),
        )
        metrics.watch(queue_depth=lambda: self.admission.waiting, running=lambda: self.admission.running)

    @property
    def info(self) -> EngineInfo | None:
        """What the engine says about itself; None until it was ready once."""
        return self._engine.info

    @property
    def context_tokens(self) -> int:
        """Prompt and answer together: what the target's files say, or less if the engine says so."""
        info = self._engine.info
        return self._facts.context_tokens if info is None else min(info.context_tokens, self._facts.context_tokens)

    @property
    def ready(self) -> bool:
        """Whether requests are taken on and answered."""
        return not self._draining and self._readiness.ready

    @property
    def not_ready_reason(self) -> str:
        """Why it is not ready; empty when it is."""
        return "the server is draining" if self._draining else self._readiness.reason

    @property
    def draining(self) -> bool:
        """Whether the server was told to stop."""
        return self._draining

    async def follow_engine(self) -> None:
        """Follow the engine's state until it has given up or stopped; runs beside the server."""
        await self._readiness.follow()

    def count_refusal(self, reason: str) -> None:
        """Count a refusal that a route answers in a form of its own."""
        self._metrics.request_rejected(reason)

    async def report(self) -> None:
        """Give the engine's counters to the metrics."""
        self._metrics.engine(await self._engine.snapshot(), self._engine.state)

    async def generate(
        self, requests: Sequence[GenerationRequest], *, tenant: str, timeout_s: float | None = None
    ) -> AsyncIterator[tuple[int, Delta]]:
        """Answer requests together; yields the position of a request and what came for it, as it comes.

        Closing the iterator cancels what is not finished. Before the first delta: OverloadedError when the queue is
        full. At any time: DeadlineError, EngineUnavailableError, and what the engine raises for a request.
        """
        self._refuse_if_closed()
        limit_s = self.limits.timeout_s if timeout_s is None else min(timeout_s, self.limits.timeout_s)
        stream = _Stream(self._clock())
        hits = {position: answer for position, request in enumerate(requests) if (answer := self._cached(request))}
        missed = [position for position in range(len(requests)) if position not in hits]
        # No await between taking the places and making the tasks that give them back.
        places = self.admission.enter(tenant, len(missed)) if missed else []
        for position, place in zip(missed, places, strict=True):
            stream.tasks[position] = self._start(stream, position, requests[position], place)
        for position, answer in hits.items():
            self._repeat(stream, position, requests[position], answer)
        self._streams.add(stream)
        self._quiet.clear()
        alarm = asyncio.get_running_loop().call_later(limit_s, stream.end, _too_late(limit_s), "deadline")
        unfinished = len(requests)
        try:
            while unfinished:
                position, delta = await stream.buffer.get()
                unfinished -= delta.answer is not None
                yield position, delta
        finally:
            alarm.cancel()
            stream.cancel()
            self._streams.discard(stream)
            if not self._streams:
                self._quiet.set()

    async def drain(self, timeout_s: float) -> None:
        """Take on nothing new, refuse what waits; what runs has `timeout_s` to finish before it ends in an error."""
        self._draining = True
        self.admission.refuse_waiting(lambda: DrainingError(_DRAINING))
        try:
            async with asyncio.timeout(timeout_s):
                await self._quiet.wait()
        except TimeoutError:
            self.abort(f"the server is shutting down; the answer was not finished within limits.drain_s = {timeout_s}")

    def abort(self, message: str) -> None:
        """End every stream with an error now, and take on nothing new."""
        self._draining = True
        self.admission.refuse_waiting(lambda: DrainingError(_DRAINING))
        for stream in list(self._streams):
            stream.end(DrainingError(message), "drained")

    async def settle(self) -> None:
        """Return when every cancelled or finished request has left the engine."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _refuse_if_closed(self) -> None:
        if self._draining:
            raise DrainingError(_DRAINING)
        if self._engine.state in (EngineState.FAILED, EngineState.STOPPED):
            raise self._gone()

    def _gone(self) -> EngineUnavailableError:
        return EngineUnavailableError(f"the engine has {self._engine.state.value}; /ready says more")

    def _cached(self, request: GenerationRequest) -> Answer | None:
        if not self._cache.may_hold(request):
            return None
        answer = self._cache.get(request)
        self._metrics.response_cache(answer is not None)
        return answer

    def _repeat(self, stream: _Stream, position: int, request: GenerationRequest, answer: Answer) -> None:
        delta = Delta(
            request_id=request.request_id,
            text=answer.text,
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
            answer=answer,
        )
        stream.buffer.put(position, delta)
        self._metrics.request_finished(
            "cached",
            e2e_s=self._clock() - stream.arrived_s,
            ttft_s=None,
            prompt_tokens=len(request.prompt_ids),
            output_tokens=len(answer.token_ids),
        )

    def _start(self, stream: _Stream, position: int, request: GenerationRequest, place: Place) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._answer(stream, position, request, place))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Not in a `finally` of the task: one that is cancelled before its first step never runs any.
        task.add_done_callback(lambda _: place.leave())
        return task

    async def _answer(self, stream: _Stream, position: int, request: GenerationRequest, place: Place) -> None:
        outcome: str | None = None
        first_s: float | None = None
        output_tokens = 0
        try:
            await place.turn()
            # AsyncIterator has no aclose, but the interface asks for one.
            deltas = cast(AsyncGenerator[Delta, None], self._engine.generate(request))
            async with aclosing(deltas):
                async for delta in deltas:
                    if delta.token_ids and first_s is None:
                        first_s = self._clock()
                    output_tokens += len(delta.token_ids)
                    stream.buffer.put(position, delta)
                    if delta.answer is not None:
                        outcome = delta.answer.finish_reason
                        del stream.tasks[position]
                        if self._cache.may_hold(request):
                            self._cache.put(request, delta.answer)
                        break
            if outcome is None:
                raise EngineUnavailableError("the engine ended an answer without finishing it")
        except asyncio.CancelledError:
            outcome = outcome or stream.cut_by
            raise
        except Exception as error:  # handed to the reader, whose business it is
            outcome = outcome or "error"
            stream.buffer.fail(error)
        finally:
            if place.running:
                self._metrics.request_finished(
                    outcome or "error",
                    e2e_s=self._clock() - stream.arrived_s,
                    ttft_s=None if first_s is None else first_s - stream.arrived_s,
                    prompt_tokens=len(request.prompt_ids),
                    output_tokens=output_tokens,
                )


def _too_late(limit_s: float) -> DeadlineError:
    return DeadlineError(
        f"the request took longer than {limit_s:g} s, waiting included; ask for fewer tokens or try again later"
    )

"""What every engine is to the server: requests in, deltas out, counters beside.

An engine may run in this process, in a child process or behind another program's API; none of that shows here.
Knows no HTTP. Invariant: a request that was submitted ends with exactly one last delta (one with an `answer`)
or with an exception, whatever happens to the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from eagle3.engine.answer import Answer, TokenLogprobs
from eagle3.engine.stats import DecodeStats
from eagle3.sampling.params import SamplingParams


class EngineState(Enum):
    """Where an engine is in its life."""

    LOADING = "loading"
    """Starting for the first time, or again after a crash."""
    READY = "ready"
    """It answers."""
    FAILED = "failed"
    """It gave up; `Engine.reason` says why."""
    STOPPED = "stopped"
    """It was told to stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationRequest:
    """One answer to one prompt; a client's `n` answers are `n` requests."""

    request_id: str
    """Unique among the requests in flight."""
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    """`params.n` is not looked at."""
    index: int = 0
    """Which of a client's `n` answers: it goes into the seed."""
    speculate: bool = True
    """False decodes plainly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """What one step added to an answer."""

    request_id: str
    text: str = ""
    """Text that became certain; may be empty although tokens came."""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] | None = None
    """One entry per token of this delta, if asked for."""
    answer: Answer | None = None
    """The whole answer; in the last delta only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineInfo:
    """What a ready engine says about itself."""

    engine: str
    """native, vllm or sglang, with its version."""
    target: str
    """Name of the target, such as SmolLM2-135M-Instruct."""
    draft: str | None
    context_tokens: int
    """Prompt and answer together."""
    vocab_size: int
    notes: tuple[str, ...] = ()
    """What the user should know, such as a setting that this engine cannot honour."""


@dataclass(kw_only=True, slots=True)
class EngineSnapshot:
    """Counters since the engine was created (they go on over restarts) and gauges of this moment."""

    stats: DecodeStats = field(default_factory=DecodeStats)
    """Of every answer, unfinished ones included."""
    prompt_tokens: int = 0
    reused_prompt_tokens: int = 0
    """Prompt tokens whose keys and values were found in the cache."""
    preemptions: int = 0
    restarts: int = 0
    """Times that the engine was started again after a crash."""
    running: int = 0
    """Requests being worked on."""
    waiting: int = 0
    """Requests inside the engine that are not being worked on."""
    cache_tokens: int = 0
    """Token slots of the KV cache."""
    cache_tokens_used: int = 0
    """Slots held by requests in flight; slots kept only for reuse are not counted."""
    gpu_memory_mb: float | None = None
    """Memory in use on the GPUs, MiB; None without a GPU."""

    def followed_by(self, later: EngineSnapshot, *, restarts: int) -> EngineSnapshot:
        """Counters of both, one engine process after the other; the gauges are those of the later one."""
        stats = DecodeStats()
        stats.add(self.stats)
        stats.add(later.stats)
        return replace(
            later,
            stats=stats,
            prompt_tokens=self.prompt_tokens + later.prompt_tokens,
            reused_prompt_tokens=self.reused_prompt_tokens + later.reused_prompt_tokens,
            preemptions=self.preemptions + later.preemptions,
            restarts=restarts,
        )

    def without_gauges(self) -> EngineSnapshot:
        """The counters alone: of a process that is gone, nothing runs and nothing is held."""
        return replace(self, running=0, waiting=0, cache_tokens=0, cache_tokens_used=0, gpu_memory_mb=None)


class Engine(Protocol):
    """An engine as the server sees it; every method is called from one event loop."""

    @property
    def state(self) -> EngineState: ...

    @property
    def reason(self) -> str | None:
        """Why it is FAILED, or why it is LOADING again."""
        ...

    @property
    def info(self) -> EngineInfo | None:
        """None until it was READY once."""
        ...

    async def start(self) -> None:
        """Begin to load; returns at once. A later failure shows in `state`."""
        ...

    async def wait_ready(self) -> None:
        """Return when READY; raise EngineUnavailableError when FAILED or STOPPED."""
        ...

    def generate(self, request: GenerationRequest) -> AsyncIterator[Delta]:
        """Yield deltas up to the last one. Closing the iterator cancels the request.

        InvalidInputError: the engine cannot serve it as asked. EngineUnavailableError: the engine is not READY,
        or crashed on the way. Other Eagle3Errors: this request failed, the engine goes on.
        """
        ...

    async def snapshot(self) -> EngineSnapshot:
        """Counters and gauges; cheap, and answered in every state."""
        ...

    async def stop(self) -> None:
        """End every request with an error, free everything, become STOPPED; may be called twice."""
        ...

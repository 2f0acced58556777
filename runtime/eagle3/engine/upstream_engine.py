"""An engine that is another program: started, watched over and asked over HTTP, behind the interface of all engines.

Knows vLLM and SGLang only as a `Dialect`. Invariant: a request ends with one last delta or with an exception, also
when the program crashes in the middle of it, and counters go on over restarts.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path

from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.answer import Answer, TokenLogprobs
from eagle3.engine.gpu_memory import gpu_memory_mb
from eagle3.engine.interface import Delta, EngineInfo, EngineSnapshot, EngineState, GenerationRequest
from eagle3.engine.process_child import ProcessChild
from eagle3.engine.stats import DecodeStats
from eagle3.engine.supervisor import Supervisor
from eagle3.engine.upstream_child import UpstreamChild
from eagle3.engine.upstream_dialect import Dialect
from eagle3.engine.upstream_metrics import LifetimeCounters, Samples
from eagle3.engine.upstream_models import UpstreamModels, prepare_models
from eagle3.errors import ConfigError, EngineUnavailableError, InvalidInputError
from eagle3.sampling.params import SamplingParams

MODEL_NAME = "target"
# Options that older releases do not have and that the engine can do without.
_OPTIONAL = frozenset({"--shutdown-timeout", "--per-request-spec-decode-metrics"})
_SNAPSHOT_TIMEOUT_S = 2.0


class UpstreamEngine:
    """Implements `engine.interface.Engine`.

    `export_folder` keeps the directories written for the program, to be found again at the next start; None takes
    a temporary one that goes with the engine.
    """

    def __init__(
        self,
        config: DeploymentConfig,
        dialect: Dialect,
        *,
        export_folder: Path | None = None,
        prepare: Callable[..., UpstreamModels] = prepare_models,
    ) -> None:
        self._prepare = prepare
        self._config = config
        self._dialect = dialect
        self._export_folder = export_folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._models: UpstreamModels | None = None
        self._notes: tuple[str, ...] = ()
        self._without: frozenset[str] = frozenset()
        self._counters = LifetimeCounters()
        self._info: EngineInfo | None = None
        self._supervisor: Supervisor[_Life] = Supervisor(
            self._launch,
            start_timeout_s=config.engine.start_timeout_s,
            on_ready=self._on_ready,
            on_exit=lambda _: self._counters.end_run(),
        )

    @property
    def state(self) -> EngineState:
        """LOADING until the program has answered its first request."""
        return self._supervisor.state

    @property
    def reason(self) -> str | None:
        """Why it is FAILED, or why it is LOADING again."""
        return self._supervisor.reason

    @property
    def info(self) -> EngineInfo | None:
        """None until it was READY once."""
        return self._info

    async def start(self) -> None:
        """Begin to load; returns at once."""
        await self._supervisor.start()

    async def wait_ready(self) -> None:
        """Return when READY; EngineUnavailableError when FAILED or STOPPED."""
        await self._supervisor.wait_ready()

    async def stop(self) -> None:
        """End every request with an error and the program with SIGTERM, remove the temporary directory."""
        await self._supervisor.stop()
        if self._temporary is not None:
            temporary, self._temporary = self._temporary, None
            await asyncio.to_thread(temporary.cleanup)

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Delta]:
        """Yield deltas up to the last one; closing the iterator cancels the request."""
        life = self._supervisor.child
        if life is None or self._models is None:
            raise EngineUnavailableError(self.reason or f"the engine is {self.state.value}")
        started = time.perf_counter()
        max_tokens = _room(request, self._models)
        body = self._dialect.body(request, self._models, max_tokens=max_tokens)
        read = self._dialect.frames(request)
        texts: list[str] = []
        token_ids: list[int] = []
        logprobs: list[TokenLogprobs] = []
        finish_reason = None
        stats = DecodeStats()
        async with aclosing(life.child.events(self._dialect.path, body)) as events:
            async for event in events:
                frame = read(event)
                if frame.token_ids and not token_ids:
                    stats.prefill_s = time.perf_counter() - started
                texts.append(frame.text)
                token_ids += frame.token_ids
                logprobs += frame.logprobs
                finish_reason = frame.finish_reason or finish_reason
                if frame.speculation is not None:
                    stats.add(frame.speculation)
                if frame.text or frame.token_ids:
                    yield Delta(
                        request_id=request.request_id,
                        text=frame.text,
                        token_ids=frame.token_ids,
                        logprobs=frame.logprobs if request.params.logprobs is not None else None,
                    )
        if finish_reason is None:
            raise EngineUnavailableError(f"{self._dialect.name} ended an answer without saying why")
        stats.output_tokens = len(token_ids)
        stats.total_s = time.perf_counter() - started
        yield Delta(
            request_id=request.request_id,
            answer=Answer(
                text="".join(texts),
                token_ids=tuple(token_ids),
                finish_reason=finish_reason,
                logprobs=tuple(logprobs) if request.params.logprobs is not None else None,
                stats=stats,
            ),
        )

    async def snapshot(self) -> EngineSnapshot:
        """Counters as the program last told them, gauges while it is READY."""
        life = self._supervisor.child
        if life is not None:
            try:
                page = await asyncio.wait_for(life.child.metrics(), _SNAPSHOT_TIMEOUT_S)
            except TimeoutError:  # busy: the counters of the last time stand
                page = None
            if page is not None and self._supervisor.child is life:
                self._counters.see(self._dialect.snapshot(Samples.parse(page)))
        memory = await gpu_memory_mb() if self._config.device.startswith("cuda") else None
        return replace(self._counters.add(), restarts=self._supervisor.restarts, gpu_memory_mb=memory)

    async def _launch(self) -> _Life:
        models = await self._prepared()
        port = _free_port()
        command = self._dialect.command(self._config, models, port=port, without=self._without)
        program = command.arguments[0]
        if shutil.which(program) is None:
            raise ConfigError(
                f"engine {self._dialect.name}: the command {program!r} does not exist; {self._dialect.install_hint}, "
                "or name the command with engine.executable"
            )
        self._notes = command.notes
        process = await ProcessChild.launch(command.arguments, name=self._dialect.name, environment=command.environment)
        probe = GenerationRequest(
            request_id="probe",
            prompt_ids=(min(models.ending_ids, default=0),),
            # Several tokens, so that the first real request does not pay for warming up the draft.
            params=SamplingParams(max_new_tokens=min(8, models.context_tokens - 1), ignore_eos=True),
        )
        body = self._dialect.body(probe, models, max_tokens=probe.params.max_new_tokens)
        child = UpstreamChild(
            process, url=f"http://127.0.0.1:{port}", name=self._dialect.name, probe=(self._dialect.path, body)
        )
        return _Life(self, child)

    async def _prepared(self) -> UpstreamModels:
        if self._models is None:
            folder = self._export_folder
            if folder is None:
                self._temporary = self._temporary or tempfile.TemporaryDirectory(prefix="eagle3-")
                folder = Path(self._temporary.name)
            self._models = await asyncio.to_thread(
                self._prepare, self._config, folder, draft_format=self._dialect.draft_format
            )
        return self._models

    def _on_ready(self, life: _Life) -> None:
        assert self._models is not None, "launched with models"
        version = "" if life.version is None else f" {life.version}"
        self._info = EngineInfo(
            engine=f"{self._dialect.name}{version}",
            target=self._models.target_name,
            draft=self._config.draft_in_use,
            context_tokens=self._models.context_tokens,
            vocab_size=self._models.vocab_size,
            notes=self._notes,
        )

    def forgive(self, fault: ConfigError) -> bool:
        """Whether the next start leaves out an option of ours that this release does not have."""
        missing = _OPTIONAL & set(re.findall(r"--[a-z-]+", str(fault))) - self._without
        self._without |= missing
        return bool(missing)


@dataclass(eq=False, slots=True)
class _Life:
    """One run of the program; asks for its version when it is ready, and leaves out options that it refuses."""

    engine: UpstreamEngine
    child: UpstreamChild
    version: str | None = None

    async def wait_ready(self) -> None:
        await self.child.wait_ready()
        self.version = await self.child.version()

    async def wait_exit(self) -> str:
        try:
            return await self.child.wait_exit()
        except ConfigError as fault:
            if self.engine.forgive(fault):
                return str(fault)
            raise

    async def stop(self) -> None:
        await self.child.stop()


def _room(request: GenerationRequest, models: UpstreamModels) -> int:
    prompt, context = len(request.prompt_ids), models.context_tokens
    if not prompt:
        raise InvalidInputError("the prompt is empty; give at least one token")
    if prompt >= context:
        raise InvalidInputError(
            f"the prompt has {prompt} tokens; the model's context of {context} tokens leaves room for at most "
            f"{context - 1}, so that an answer fits; shorten the prompt"
        )
    return min(request.params.max_new_tokens, context - prompt)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

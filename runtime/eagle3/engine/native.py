"""The native engine as the server sees it: a supervised process of its own, so that no crash takes the server down.

Knows no HTTP and no models. Invariant: every request that was sent to the process ends with its last delta, its
error, or, when the process dies, an EngineUnavailableError.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.batch import Failure
from eagle3.engine.interface import Delta, EngineInfo, EngineSnapshot, EngineState, GenerationRequest
from eagle3.engine.process_child import ProcessChild
from eagle3.engine.supervisor import Supervisor
from eagle3.engine.wire import LENGTH, Abort, Add, Command, Configure, Loaded, NotLoaded, Progress, pack, unpack
from eagle3.errors import Eagle3Error, EngineUnavailableError

Connected = asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]

Reports = Callable[[Progress], None]


class WorkerChild:
    """One run of the engine's process with the socket to it. Made by `WorkerChild.launch`."""

    def __init__(self, process: ProcessChild, server: asyncio.Server, folder: Path) -> None:
        self._process = process
        self._server = server
        self._folder = folder
        self._writer: asyncio.StreamWriter | None = None
        self._conversation: asyncio.Task[None] | None = None
        self._loaded: asyncio.Future[EngineInfo] = asyncio.get_running_loop().create_future()

    @classmethod
    async def launch(cls, config: DeploymentConfig, on_progress: Reports) -> WorkerChild:
        """Start the process; it connects to a socket in a folder that only this user can enter."""
        folder = Path(tempfile.mkdtemp(prefix="eagle3-"))
        connected: Connected = asyncio.get_running_loop().create_future()
        server = await asyncio.start_unix_server(
            lambda reader, writer: connected.set_result((reader, writer)), path=folder / "engine.sock"
        )
        process = await ProcessChild.launch(
            [sys.executable, "-m", "eagle3.engine.worker", str(folder / "engine.sock")],
            name="engine",
            environment={"TOKENIZERS_PARALLELISM": "false"},
        )
        child = cls(process, server, folder)
        child._conversation = asyncio.create_task(child._converse(connected, config, on_progress), name="engine")
        return child

    async def wait_ready(self) -> None:
        await asyncio.shield(self._loaded)

    async def wait_exit(self) -> str:
        reason = await self._process.wait_exit()
        if self._conversation is not None and self._writer is not None:
            await asyncio.wait({self._conversation})  # its last words may still be on the way
        if self._loaded.done() and not self._loaded.cancelled() and (fault := self._loaded.exception()) is not None:
            raise fault
        return reason

    async def stop(self) -> None:
        if self._conversation is not None:
            self._conversation.cancel()
            await asyncio.wait({self._conversation})
        self._loaded.cancel()
        if self._writer is not None:
            self._writer.close()
        self._server.close()
        await self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def info(self) -> EngineInfo:
        """What it said when it was ready."""
        return self._loaded.result()

    def send(self, command: Command) -> None:
        """Queue a command; one to a process that has died goes nowhere, its end is told otherwise."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(pack(command))

    async def _converse(self, connected: Connected, config: DeploymentConfig, on_progress: Reports) -> None:
        reader, self._writer = await connected
        self.send(Configure(config.model_dump_json()))
        while True:
            try:
                length = await reader.readexactly(LENGTH.size)
                report = unpack(await reader.readexactly(*LENGTH.unpack(length)))
            except (asyncio.IncompleteReadError, ConnectionError):
                return  # the process is ending; `wait_exit` tells why
            if isinstance(report, Loaded):
                self._loaded.set_result(report.info)
            elif isinstance(report, NotLoaded):
                self._loaded.set_exception(report.error)
            elif isinstance(report, Progress):
                on_progress(report)


class NativeEngine:
    """Our own engine in a supervised process."""

    def __init__(self, config: DeploymentConfig) -> None:
        self._inboxes: dict[str, asyncio.Queue[Delta | Eagle3Error]] = {}
        self._info: EngineInfo | None = None
        self._before = EngineSnapshot()
        self._latest = EngineSnapshot()
        self._supervisor: Supervisor[WorkerChild] = Supervisor(
            lambda: WorkerChild.launch(config, self._on_progress),
            start_timeout_s=config.engine.start_timeout_s,
            on_ready=self._on_ready,
            on_exit=self._on_exit,
        )

    @property
    def state(self) -> EngineState:
        return self._supervisor.state

    @property
    def reason(self) -> str | None:
        return self._supervisor.reason

    @property
    def info(self) -> EngineInfo | None:
        return self._info

    async def start(self) -> None:
        await self._supervisor.start()

    async def wait_ready(self) -> None:
        await self._supervisor.wait_ready()

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Delta]:
        child = self._supervisor.child
        if child is None:
            raise EngineUnavailableError(f"the engine is {self.state.value}: {self.reason or 'try again later'}")
        inbox: asyncio.Queue[Delta | Eagle3Error] = asyncio.Queue()
        self._inboxes[request.request_id] = inbox
        ended = False
        try:
            child.send(Add(request))
            while not ended:
                item = await inbox.get()
                ended = not isinstance(item, Delta) or item.answer is not None
                if not isinstance(item, Delta):
                    raise item
                yield item
        finally:
            self._inboxes.pop(request.request_id, None)
            if not ended:
                child.send(Abort(request.request_id))

    async def snapshot(self) -> EngineSnapshot:
        return self._before.followed_by(self._latest, restarts=self._supervisor.restarts)

    async def stop(self) -> None:
        await self._supervisor.stop()

    def _on_ready(self, child: WorkerChild) -> None:
        self._info = child.info

    def _on_progress(self, progress: Progress) -> None:
        if progress.snapshot is not None:
            self._latest = progress.snapshot
        for event in progress.events:
            inbox = self._inboxes.get(event.request_id)
            if inbox is not None:  # else it was cancelled meanwhile
                inbox.put_nowait(event.error if isinstance(event, Failure) else event)

    def _on_exit(self, reason: str) -> None:
        self._before = self._before.followed_by(self._latest, restarts=0).without_gauges()
        self._latest = EngineSnapshot()
        for inbox in self._inboxes.values():
            inbox.put_nowait(EngineUnavailableError(f"the engine stopped while it was working on this: {reason}"))

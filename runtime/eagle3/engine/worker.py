"""The native engine's own process: loads the models, then steps the batched engine as long as there is work.

Started as `python -m eagle3.engine.worker SOCKET` by `NativeEngine`. Ends when the socket closes. Whatever is not a
user's fault ends the process, and with it nothing but the requests in flight: the supervisor starts a new one.
"""

from __future__ import annotations

import json
import logging
import queue
import socket
import sys
import threading
import time
from importlib.metadata import version

import torch

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.engine.batch import BatchEngine, Event, Failure
from eagle3.engine.calibration import calibrated_policy
from eagle3.engine.interface import EngineInfo, EngineSnapshot
from eagle3.engine.loading import Models, build_engine, load_models
from eagle3.engine.wire import LENGTH, Abort, Add, Command, Configure, Loaded, NotLoaded, Progress, Report, pack, unpack
from eagle3.errors import Eagle3Error, InvalidInputError
from eagle3.models.embedded import target_name

_SNAPSHOT_EVERY_S = 0.25


class Worker:
    """Serves one connection until it closes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._told_at = 0.0

    def run(self) -> int:
        """Load, serve, return the exit code."""
        threading.Thread(target=self._receive, name="commands", daemon=True).start()
        first = self._commands.get()
        if not isinstance(first, Configure):
            return 1  # the other end went away before it said anything
        try:
            config = parse_config(json.loads(first.config), source="the server's config")
            engine, info = _load(config)
        except Eagle3Error as error:
            self._send(NotLoaded(error))
            return error.exit_code
        self._send(Loaded(info))
        while self._obey(engine):
            if engine.has_work:
                self._report(engine, engine.step())
        return 0

    def _obey(self, engine: BatchEngine) -> bool:
        """Take every command that has come, waiting for one if there is nothing else to do; False at the end."""
        block = not engine.has_work
        while True:
            try:
                command = self._commands.get(block=block)
            except queue.Empty:
                return True
            if command is None:
                return False
            if isinstance(command, Add):
                try:
                    engine.add(command.request)
                except InvalidInputError as error:
                    self._send(Progress([Failure(command.request.request_id, error)], None))
            elif isinstance(command, Abort):
                engine.abort(command.request_id)
                self._report(engine, [])
            block = False

    def _report(self, engine: BatchEngine, events: list[Event]) -> None:
        now = time.monotonic()
        snapshot: EngineSnapshot | None = None
        if now - self._told_at >= _SNAPSHOT_EVERY_S or not engine.has_work:
            self._told_at = now
            snapshot = engine.snapshot()
            snapshot.gpu_memory_mb = _gpu_memory_mb()
        if events or snapshot is not None:
            self._send(Progress(events, snapshot))

    def _send(self, report: Report) -> None:
        self._connection.sendall(pack(report))

    def _receive(self) -> None:
        with self._connection.makefile("rb") as stream:
            while len(length := stream.read(LENGTH.size)) == LENGTH.size:
                message = unpack(stream.read(*LENGTH.unpack(length)))
                assert isinstance(message, Configure | Add | Abort), "the server sends commands"
                self._commands.put(message)
        self._commands.put(None)


def _load(config: DeploymentConfig) -> tuple[BatchEngine, EngineInfo]:
    models = load_models(config)
    engine = build_engine(
        models,
        settings=config.engine,
        shape=config.speculation,
        max_running=config.limits.concurrency,
        policy=lambda runner: calibrated_policy(runner, config.speculation),
    )
    return engine, _info(config, models, engine)


def _info(config: DeploymentConfig, models: Models, engine: BatchEngine) -> EngineInfo:
    return EngineInfo(
        engine=f"native {version('eagle3-kit')}",
        target=target_name(config.target),
        draft=config.draft_in_use,
        context_tokens=engine.context_tokens,
        vocab_size=models.target.arch.vocab_size,
        notes=_notes(config, models, engine),
    )


def _notes(config: DeploymentConfig, models: Models, engine: BatchEngine) -> tuple[str, ...]:
    notes = []
    if engine.context_tokens < models.target.arch.max_position:
        notes.append(
            f"the KV cache holds {engine.context_tokens} tokens, less than the model's context of "
            f"{models.target.arch.max_position}; raise engine.cache_tokens for longer requests"
        )
    if config.engine.tensor_parallel > 1:
        notes.append("the native engine runs on one device; engine.tensor_parallel is not used")
    if config.engine.arguments:
        notes.append("the native engine takes no engine.arguments; they are not used")
    return tuple(notes)


def _gpu_memory_mb() -> float | None:
    if not torch.cuda.is_available():
        return None
    pairs = [torch.cuda.mem_get_info(device) for device in range(torch.cuda.device_count())]
    return sum(total - free for free, total in pairs) / 2**20


def main() -> int:
    """Connect to the socket named on the command line and serve it."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        return Worker(connection).run()


if __name__ == "__main__":
    sys.exit(main())

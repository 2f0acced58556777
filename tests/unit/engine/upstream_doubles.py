"""Engines in front of the scripted program of `fake_server`, and models that nothing has to be loaded for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.engine.interface import Delta, GenerationRequest
from eagle3.engine.sglang import SglangDialect
from eagle3.engine.upstream_engine import UpstreamEngine
from eagle3.engine.upstream_models import UpstreamModels
from eagle3.engine.vllm import VllmDialect
from eagle3.sampling.params import sampling_params

FAKE_SERVER = Path(__file__).with_name("fake_server.py")
MODELS = UpstreamModels(
    target=Path("/models/target"),
    draft=Path("/models/draft"),
    target_name="tiny",
    context_tokens=64,
    vocab_size=100,
    ending_ids=frozenset({2, 0}),
    bytes_per_token=8,
)

ANSWERS, FOREVER, CRASHES, REFUSED, FAILS, BREAKS_OFF, ABORTS = range(10, 17)


def fake_config(*arguments: str, **engine: object) -> DeploymentConfig:
    """A config whose engine's command is the scripted program."""
    command = f"{shlex.quote(sys.executable)} -I {shlex.quote(str(FAKE_SERVER))}"
    values = {"engine": {"name": "vllm", "executable": command, "arguments": list(arguments)} | engine}
    return parse_config(values, source="test")


def request_of(kind: int, *, index: int = 0, **params: object) -> GenerationRequest:
    """A request whose first token tells the scripted program what to do."""
    return GenerationRequest(
        request_id=f"r{kind}", prompt_ids=(kind, 5, 6), params=sampling_params(**params), index=index
    )


@asynccontextmanager
async def running(
    config: DeploymentConfig | None = None, dialect: VllmDialect | SglangDialect | None = None
) -> AsyncIterator[UpstreamEngine]:
    """A ready engine in front of the scripted program."""
    engine = UpstreamEngine(
        fake_config() if config is None else config, dialect or VllmDialect(), prepare=lambda *_, **__: MODELS
    )
    await engine.start()
    try:
        await engine.wait_ready()
        yield engine
    finally:
        await engine.stop()


async def collect(engine: UpstreamEngine, request: GenerationRequest) -> list[Delta]:
    """All deltas of one answer."""
    return [delta async for delta in engine.generate(request)]

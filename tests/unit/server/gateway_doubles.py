"""A gateway in front of a scripted engine, followed as the app does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from builders import ByteTokenizer
from eagle3.config.limits import Limits
from eagle3.config.serving import MetricsSettings
from eagle3.engine.interface import Delta, GenerationRequest
from eagle3.metrics.registry import Metrics
from eagle3.sampling.params import SamplingParams
from eagle3.server.gateway import Gateway
from eagle3.server.response_cache import ResponseCache
from eagle3.server.target_facts import TargetFacts
from server_doubles import CONTEXT_TOKENS, VOCAB_SIZE


def make_gateway(engine: Any, *, cache_entries: int = 0, **limits: Any) -> Gateway:
    """A gateway that nobody follows yet."""
    return Gateway(
        engine,
        ByteTokenizer(),
        Limits(**limits),
        Metrics(MetricsSettings()),
        TargetFacts(name="scripted", context_tokens=CONTEXT_TOKENS, vocab_size=VOCAB_SIZE),
        cache=ResponseCache(entries=cache_entries, most_bytes=1 << 20),
        created=1,
    )


@asynccontextmanager
async def running_gateway(engine: Any, *, wait: bool = True, **limits: Any) -> AsyncIterator[Gateway]:
    """The gateway of a started engine; at the end, nothing may be left in it."""
    gateway = make_gateway(engine, **limits)
    await engine.start()
    follower = asyncio.create_task(gateway.follow_engine())
    while wait and not gateway.ready:
        await asyncio.sleep(0.001)
    try:
        yield gateway
        await gateway.settle()
        gateway.admission.check_integrity()
        assert (gateway.admission.waiting, gateway.admission.running) == (0, 0)
    finally:
        follower.cancel()
        await asyncio.wait([follower])


def request(name: str, *, prompt: str = "hi", tokens: int = 4, index: int = 0, **params: Any) -> GenerationRequest:
    """One request for `tokens` letters."""
    return GenerationRequest(
        request_id=name,
        prompt_ids=tuple(prompt.encode()),
        params=SamplingParams(max_new_tokens=tokens, **params),
        index=index,
    )


async def collect(gateway: Gateway, *requests: GenerationRequest, tenant: str = "t", **options: Any) -> list[str]:
    """Texts of the answers, in the order of the requests."""
    texts = [""] * len(requests)
    async for position, delta in gateway.generate(requests, tenant=tenant, **options):
        texts[position] += delta.text
    return texts


async def until(condition: Any, timeout_s: float = 5.0) -> None:
    """Wait for a condition of the event loop's world."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.001)


def text_of(deltas: list[Delta]) -> str:
    """Text that deltas add up to."""
    return "".join(delta.text for delta in deltas)

"""What stands behind the routes of the server in their tests: a gateway that says what it is told to.

Nothing here loads a model. Tokens are bytes, so every count can be read off a text.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from fastapi import FastAPI

from builders import ByteTokenizer, StandIn
from eagle3.config.limits import Limits
from eagle3.engine.answer import Answer, TokenLogprobs
from eagle3.engine.interface import Delta, EngineInfo, GenerationRequest
from eagle3.engine.stats import DecodeStats
from eagle3.errors import InvalidInputError

MODEL = "tiny/bytes"
CONTEXT_TOKENS = 512
VOCAB_SIZE = 260
END_ID = 256


class ByteChatTokenizer(ByteTokenizer):
    """Bytes, with a template of one line a turn that wants user and assistant to take turns."""

    has_chat_template = True
    longest_token = 4
    special_ids = frozenset({END_ID})

    def encode_chat(self, messages: Sequence[Any]) -> list[int]:
        """`role: content` lines, then the opened answer."""
        roles = [message["role"] for message in messages if message["role"] != "system"]
        if any(one == other for one, other in itertools.pairwise(roles)):
            raise InvalidInputError("the model's chat template refuses these messages: roles must alternate")
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return self.encode("".join(lines) + "assistant: ")

    def token_bytes(self, token_id: int) -> bytes:
        """The byte."""
        return bytes([token_id]) if token_id < 256 else b"<|end|>"


class ScriptedGateway(StandIn):
    """Answers every request with `text`, a byte a delta; `fails` is raised after `fails_after` deltas.

    While `held` is not set, nothing comes. `asked` is what was asked; `cancelled` is set when a stream was closed
    before its end.
    """

    def __init__(
        self,
        text: str = "Hi é!",
        *,
        limits: Limits | None = None,
        fails: Exception | None = None,
        fails_after: int = 0,
        ready: bool = True,
    ) -> None:
        self.text = text
        self.limits = limits or Limits()
        self.tokenizer = ByteChatTokenizer([END_ID])
        self.model_name = MODEL
        self.created = 1_700_000_000
        self.context_tokens = CONTEXT_TOKENS
        self.vocab_size = VOCAB_SIZE
        self.ready = ready
        self.not_ready_reason = "" if ready else "loading"
        self.info = EngineInfo(
            engine="scripted 1.0", target=MODEL, draft=None, context_tokens=CONTEXT_TOKENS, vocab_size=VOCAB_SIZE
        )
        self.fails, self.fails_after = fails, fails_after
        self.refusals: list[str] = []
        self.count_refusal = self.refusals.append
        self.asked: list[GenerationRequest] = []
        self.tenants: list[str] = []
        self.timeouts: list[float | None] = []
        self.held = asyncio.Event()
        self.held.set()
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def generate(
        self, requests: Sequence[GenerationRequest], *, tenant: str, timeout_s: float | None = None
    ) -> AsyncIterator[tuple[int, Delta]]:
        """A byte of each answer in turn."""
        self.asked += requests
        self.tenants.append(tenant)
        self.timeouts.append(timeout_s)
        self.begun.set()
        finished = False
        try:
            scripts = [_script(request, self.text) for request in requests]
            for step, deltas in enumerate(zip(*scripts, strict=True)):
                if self.fails is not None and step == self.fails_after:
                    raise self.fails
                await self.held.wait()
                await asyncio.sleep(0)
                for position, delta in enumerate(deltas):
                    yield position, delta
            finished = True
        finally:
            if not finished:
                self.cancelled.set()


def _script(request: GenerationRequest, text: str) -> list[Delta]:
    """One delta a byte, text with the last byte of a character, then the end of text as a token of its own."""
    wanted = request.params.logprobs
    token_ids = [*text.encode(), END_ID]
    entries = [
        TokenLogprobs(token_id, -0.5, tuple((token_id + offset, -0.5 - offset) for offset in range(wanted or 0)))
        for token_id in token_ids
    ]
    stats = DecodeStats(output_tokens=len(token_ids), drafted=10, accepted_at_depth=[3, 1], cycles=4, cycle_tokens=5)
    answer = Answer(
        text=text,
        token_ids=tuple(token_ids),
        finish_reason="stop",
        logprobs=None if wanted is None else tuple(entries),
        stats=stats,
    )
    deltas: list[Delta] = []
    pending = b""
    for token_id, entry in zip(token_ids, entries, strict=True):
        pending += bytes([token_id]) if token_id < 256 else b""
        try:
            piece, pending = pending.decode(), b""
        except UnicodeDecodeError:
            piece = ""
        deltas.append(
            Delta(
                request_id=request.request_id,
                text=piece,
                token_ids=(token_id,),
                logprobs=None if wanted is None else (entry,),
                answer=answer if token_id == END_ID else None,
            )
        )
    return deltas


def protocol_app(gateway: Any) -> FastAPI:
    """Every route of the protocol on a gateway, with the server's own error answers."""
    from eagle3.server.chat import chat_router
    from eagle3.server.completions import completions_router
    from eagle3.server.error_boundary import ErrorBoundary
    from eagle3.server.errors import install_error_handlers
    from eagle3.server.models_route import models_router
    from eagle3.server.request_id import RequestId
    from eagle3.server.sagemaker import sagemaker_router
    from eagle3.server.sagemaker_local import sagemaker_local_router

    app = FastAPI()
    install_error_handlers(app, on_reject=lambda reason: None)
    app.add_middleware(ErrorBoundary, on_reject=lambda reason: None)
    app.add_middleware(RequestId)
    for router in (completions_router, chat_router, models_router, sagemaker_router, sagemaker_local_router):
        app.include_router(router(gateway))
    return app


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """The app on a real socket, in a thread of its own; gives its base URL."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()

"""Faults of a server for tests: models that are right or wrong for each other, load, and processes that are stopped.

Starts and ends only what it started itself. Knows no diagnosis.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from builders import BYTE_VOCAB, markov_draft_checkpoint, markov_target, write_byte_tokenizer, write_checkpoint
from serve_process import ServeProcess

MODEL = "tiny-bytes"
OWN_STEP, OTHER_STEP = 7, 11


def write_counting_model(directory: Path) -> Path:
    """A target that answers every byte with the one seven further on, with a tokenizer; returns `directory`."""
    target = markov_target(BYTE_VOCAB, OWN_STEP)
    arch = target.arch
    config = {
        "architectures": ["LlamaForCausalLM"], "vocab_size": BYTE_VOCAB, "hidden_size": arch.hidden_size,
        "intermediate_size": arch.intermediate_size, "num_hidden_layers": arch.num_layers, "head_dim": arch.head_dim,
        "num_attention_heads": arch.num_heads, "num_key_value_heads": arch.num_kv_heads, "rms_norm_eps": arch.rms_eps,
        "max_position_embeddings": 4096, "rope_theta": 10000.0, "mlp_bias": True,
    }  # fmt: skip
    tensors = {
        name if name == "lm_head.weight" else f"model.{name}": parameter.detach().clone()
        for name, parameter in target.named_parameters()
    }
    write_checkpoint(directory, config, tensors)
    return write_byte_tokenizer(directory)


def write_counting_draft(directory: Path, *, step: int) -> Path:
    """A draft of the target that counts in steps of `step`: of ours with `OWN_STEP`, else of another one."""
    from eagle3.models.draft_formats import write_draft

    directory.mkdir(parents=True)
    write_draft(directory, markov_draft_checkpoint(BYTE_VOCAB, step), "original")
    return directory


def body(**changes: Any) -> dict[str, Any]:
    """A request that such a target answers for long."""
    asked = {"model": MODEL, "prompt": "hello", "max_tokens": 200, "temperature": 0, "ignore_eos": True}
    return asked | changes


@contextlib.contextmanager
def requests(url: str, count: int, **changes: Any) -> Iterator[None]:
    """So many clients that ask again and again, whatever they are answered, until the block ends."""
    stop = threading.Event()

    async def client(session: httpx.AsyncClient) -> None:
        while not stop.is_set():
            with contextlib.suppress(httpx.HTTPError):
                answer = await session.post("/v1/completions", json=body(**changes))
                await asyncio.sleep(0.05 if answer.status_code != 200 else 0.0)

    async def clients() -> None:
        limits = httpx.Limits(max_connections=count)
        async with httpx.AsyncClient(base_url=url, timeout=30.0, limits=limits) as session:
            tasks = [asyncio.create_task(client(session)) for _ in range(count)]
            while not stop.is_set():
                await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    thread = threading.Thread(target=lambda: asyncio.run(clients()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30.0)


def engine_of(server: ServeProcess) -> psutil.Process:
    """The process that generates: the child of the server that has used most memory."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return max(children, key=lambda child: child.memory_info().rss)


@contextlib.contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    """A process that does nothing, and goes on at the end of the block."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


def sample(url: str, name: str) -> float:
    """A sample of the server's metrics without labels; 0 without one."""
    text = httpx.get(f"{url}/metrics", timeout=10.0).text
    return next((float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)


def until(holds: Callable[[], bool], what: str, *, limit_s: float = 60.0) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end_s, f"never: {what}"
        time.sleep(0.05)


def causes_in(said: str) -> list[str]:
    """Names of the causes in a report as JSON, the first first."""
    return [one["cause"] for one in json.loads(said)["causes"]]

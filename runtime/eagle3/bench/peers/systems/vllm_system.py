"""vLLM as a system of `bench peers`: its engine in this process, one request at a time, with or without a draft.

Runs under a Python that has vLLM and need not have eagle3. Knows no other system. In-process stepping saves it the
sockets of its server. Environment (threads, their binding, the OpenMP library) comes with the process.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagle3.bench.peers.worker import Reply

vllm: Any = importlib.import_module("vllm")


class VllmSystem:
    """Implements `worker.OpenSystem`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        options: dict[str, Any] = {}
        self._drafts = settings["draft"] is not None
        if self._drafts:
            options["speculative_config"] = {
                "method": "eagle3",
                "model": settings["draft"],
                "num_speculative_tokens": settings["chain_tokens"],
            }
            options["per_request_spec_decode_metrics"] = "summary"
        self._engine = vllm.LLM(
            settings["target"],
            dtype=settings["dtype"],
            max_model_len=settings["context_tokens"],
            max_num_seqs=1,
            max_num_batched_tokens=max(2048, settings["context_tokens"]),
            enforce_eager=settings["eager"],
            enable_prefix_caching=False,
            kv_cache_memory_bytes=settings["cache_bytes"],
            seed=0,
            **options,
        ).llm_engine
        self._ending_ids: list[int] = settings["ending_ids"]
        self._requests = 0
        self.versions = {name: importlib.metadata.version(name) for name in ("vllm", "torch")}
        chain = f", eagle3 with a chain of {settings['chain_tokens']}" if self._drafts else ""
        way = "eager" if settings["eager"] else "compiled"
        self.notes = [f"{settings['dtype']}, {settings['threads']} threads, {way}, engine in process{chain}"]

    def answer(self, prompt_ids: Sequence[int], *, max_tokens: int, temperature: float, seed: int) -> Reply:
        """Make one answer."""
        params = vllm.SamplingParams(
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed if temperature > 0 else None,
            stop_token_ids=self._ending_ids,
            detokenize=False,
        )
        self._requests += 1
        begin_s = time.perf_counter()
        self._engine.add_request(str(self._requests), {"prompt_token_ids": list(prompt_ids)}, params)
        first_s, first_tokens, completion = 0.0, 0, None
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                completion = output.outputs[0]
                if not first_tokens and completion.token_ids:
                    first_s, first_tokens = time.perf_counter() - begin_s, len(completion.token_ids)
        assert completion is not None, "a finished request has an output"
        token_ids = list(completion.token_ids)
        told = completion.spec_decode_metrics if self._drafts else None
        cycles = len(token_ids) - first_tokens if told is None else sum(told.histogram)
        return {"token_ids": token_ids, "first_tokens": first_tokens, "first_s": first_s, "cycles": cycles}


def open_system(settings: dict[str, Any]) -> VllmSystem:
    """Load the target and the draft; `settings`: target, draft or None, chain_tokens, dtype, threads, limits."""
    return VllmSystem(settings)

"""llama.cpp as a system of `bench peers`, through llama-cpp-python: plain, or with its prompt lookup.

Runs under a Python that has llama_cpp and need not have eagle3. Knows no other system. Nothing of a prompt is kept
for the next one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagle3.bench.peers.worker import Reply

llama_cpp: Any = importlib.import_module("llama_cpp")


class LlamaCppSystem:
    """Implements `worker.OpenSystem`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        threads, lookup = settings["threads"], settings.get("lookup_tokens")
        draft = None
        if lookup is not None:
            speculative = importlib.import_module("llama_cpp.llama_speculative")
            draft = speculative.LlamaPromptLookupDecoding(num_pred_tokens=lookup)
        self._llama = llama_cpp.Llama(
            settings["model"],
            n_ctx=settings["context_tokens"],
            n_batch=512,
            n_threads=threads,
            n_threads_batch=threads,
            flash_attn=settings["flash_attention"],
            draft_model=draft,
            verbose=False,
        )
        self._ending_ids = frozenset(settings["ending_ids"])
        self._passes = 0
        evaluate = self._llama.eval

        def counted(tokens: Sequence[int]) -> None:
            self._passes += 1
            evaluate(tokens)

        self._llama.eval = counted
        self.versions = {"llama_cpp_python": importlib.metadata.version("llama_cpp_python")}
        self.notes = [
            f"{settings['format']}, {threads} threads"
            + (", flash attention" if settings["flash_attention"] else "")
            + ("" if lookup is None else f", prompt lookup of {lookup} tokens")
        ]

    def answer(self, prompt_ids: Sequence[int], *, max_tokens: int, temperature: float, seed: int) -> Reply:
        """Make one answer."""
        llama = self._llama
        llama.reset()
        llama.set_seed(seed)
        self._passes = 0
        token_ids: list[int] = []
        begin_s = time.perf_counter()
        first_s = 0.0
        for token_id in llama.generate(list(prompt_ids), temp=temperature, top_k=0, top_p=1.0, min_p=0.0):
            if not token_ids:
                first_s = time.perf_counter() - begin_s
            token_ids.append(token_id)
            if len(token_ids) == max_tokens or token_id in self._ending_ids:
                break
        return {"token_ids": token_ids, "first_tokens": 1, "first_s": first_s, "cycles": self._passes - 1}


def open_system(settings: dict[str, Any]) -> LlamaCppSystem:
    """Load the model; `settings` names it, its format and limits, and how many tokens prompt lookup guesses."""
    return LlamaCppSystem(settings)

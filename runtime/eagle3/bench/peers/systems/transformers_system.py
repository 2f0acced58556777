"""Hugging Face `generate` as a system of `bench peers`: plain, prompt lookup, or assisted by its own early layers.

Reads a GGUF file through transformers' own reader. A streamer is told every block of tokens as it is made, which
gives the time of the first and the number of passes. Knows no other system.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor

if TYPE_CHECKING:
    from eagle3.bench.peers.worker import Reply


class Blocks:
    """A streamer that keeps the sizes of the blocks that `generate` tells it, and when the first came."""

    def __init__(self) -> None:
        self.begin_s = time.perf_counter()
        self.first_s = 0.0
        self.sizes: list[int] = []
        self._prompt_seen = False

    def put(self, value: Tensor) -> None:
        """Called with the prompt first, then with the tokens of every pass."""
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        if not self.sizes:
            self.first_s = time.perf_counter() - self.begin_s
        self.sizes.append(value.numel())

    def end(self) -> None:
        """Called once, after the last tokens."""


class TransformersSystem:
    """Implements `worker.OpenSystem`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        torch.set_num_threads(settings["threads"])
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        path, dtype = Path(settings["target"]), getattr(torch, settings["dtype"])
        place = {"gguf_file": path.name} if path.is_file() else {}
        folder = path.parent if path.is_file() else path
        self._model = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype, **place).eval()
        for name, value in settings["generation"].items():
            setattr(self._model.generation_config, name, value)
        self._options: dict[str, Any] = settings["options"]
        self._ending_ids: list[int] = settings["ending_ids"]
        self.versions = {name: importlib.metadata.version(name) for name in ("transformers", "torch")}
        options = "".join(f", {name} {value}" for name, value in (self._options | settings["generation"]).items())
        self.notes = [
            f"{settings['dtype']}, {torch.get_num_threads()} threads, "
            f"{self._model.config._attn_implementation} attention{options}"
        ]

    @torch.inference_mode()
    def answer(self, prompt_ids: Sequence[int], *, max_tokens: int, temperature: float, seed: int) -> Reply:
        """Make one answer."""
        torch.manual_seed(seed)
        prompt = torch.tensor([list(prompt_ids)])
        sampled = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        blocks = Blocks()
        output = self._model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=max_tokens,
            eos_token_id=self._ending_ids,
            pad_token_id=self._ending_ids[0],
            streamer=blocks,
            **(sampled if temperature > 0 else {"do_sample": False}),
            **self._options,
        )
        return {
            "token_ids": output[0, len(prompt_ids) :].tolist(),
            "first_tokens": blocks.sizes[0],
            "first_s": blocks.first_s,
            "cycles": len(blocks.sizes) - 1,
        }


def open_system(settings: dict[str, Any]) -> TransformersSystem:
    """Load the target; `settings`: target, dtype, threads, ending_ids, what `generate` is told and its defaults."""
    return TransformersSystem(settings)

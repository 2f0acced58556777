"""The native engine as a system of `bench peers`: one request at a time through the Python API.

Knows no other system. Prompts are read anew each time: the config that comes in has no reuse of prefixes.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.llm import LLM
from eagle3.sampling.params import sampling_params

if TYPE_CHECKING:
    from eagle3.bench.peers.worker import Reply


class OwnSystem:
    """Implements `worker.OpenSystem`."""

    def __init__(self, config: DeploymentConfig) -> None:
        self._llm = LLM.from_config(config)
        shape = config.speculation
        self.versions = {name: importlib.metadata.version(name) for name in ("eagle3-kit", "torch")}
        drafters = "+".join(config.drafters)
        tree = f"{drafters}, tree of depth {shape.depth}, top-k {shape.top_k}, {shape.nodes} nodes"
        self.notes = [
            f"{config.quantize or config.dtype}, {torch.get_num_threads()} threads, {tree if drafters else 'no draft'}"
        ]

    def answer(self, prompt_ids: Sequence[int], *, max_tokens: int, temperature: float, seed: int) -> Reply:
        """Make one answer. The engine's own clock gives the first token's time: its text may show only later."""
        params = sampling_params(max_new_tokens=max_tokens, temperature=temperature, seed=seed)
        *_, last = self._llm.stream(prompt_ids, params)
        assert last.answer is not None, "a stream ends with its answer"
        stats = last.answer.stats
        return {
            "token_ids": list(last.answer.token_ids),
            "first_tokens": 1,
            "first_s": stats.prefill_s,
            "cycles": stats.cycles,
        }


def open_system(settings: dict[str, Any]) -> OwnSystem:
    """Load what the config names; `settings` holds it as JSON."""
    assert not any(name.startswith("EAGLE3_") for name in os.environ), "the config that came in is all there is"
    return OwnSystem(DeploymentConfig.model_validate_json(settings["config"]))

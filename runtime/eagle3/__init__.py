"""EAGLE-3 speculative decoding: the runtime of eagle3-kit.

Names are loaded when first used: whoever needs only the deployment config (the stacks do) does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagle3.config.deployment import DeploymentConfig
    from eagle3.config.speculation import Speculation
    from eagle3.engine.answer import Answer, Piece, TokenLogprobs
    from eagle3.engine.llm import LLM
    from eagle3.errors import Eagle3Error
    from eagle3.sampling.params import SamplingParams, sampling_params

__all__ = [
    "LLM",
    "Answer",
    "DeploymentConfig",
    "Eagle3Error",
    "Piece",
    "SamplingParams",
    "Speculation",
    "TokenLogprobs",
    "sampling_params",
]

_MODULES = {
    "LLM": "eagle3.engine.llm",
    "Answer": "eagle3.engine.answer",
    "DeploymentConfig": "eagle3.config.deployment",
    "Eagle3Error": "eagle3.errors",
    "Piece": "eagle3.engine.answer",
    "SamplingParams": "eagle3.sampling.params",
    "Speculation": "eagle3.config.speculation",
    "TokenLogprobs": "eagle3.engine.answer",
    "sampling_params": "eagle3.sampling.params",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'eagle3' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value

"""EAGLE-3 speculative decoding: the runtime of eagle3-kit."""

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

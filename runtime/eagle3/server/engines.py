"""Makes the engine that a deployment config names; the only place that knows all of them."""

from __future__ import annotations

from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.interface import Engine
from eagle3.engine.native import NativeEngine
from eagle3.engine.sglang import sglang_engine
from eagle3.engine.vllm import vllm_engine


def build_engine(config: DeploymentConfig) -> Engine:
    """The engine, not started; ConfigError for what it cannot do at all."""
    match config.engine.name:
        case "native":
            return NativeEngine(config)
        case "vllm":
            return vllm_engine(config)
        case "sglang":
            return sglang_engine(config)

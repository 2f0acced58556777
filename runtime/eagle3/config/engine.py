"""Which engine generates, and how much memory and work it takes at a time."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

EngineName = Literal["native", "vllm", "sglang"]


class EngineSettings(BaseModel):
    """The engine behind the server."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    name: EngineName = Field(default="native", description="native, vllm or sglang")
    cache_tokens: int | None = Field(
        default=None, ge=64, description="tokens that the KV cache holds for all requests; null: from free memory"
    )
    block_tokens: int = Field(default=16, ge=1, le=256, description="tokens of a cache block (native)")
    step_tokens: int = Field(
        default=512, ge=16, description="prompt tokens read in one step, so that long prompts do not stall others"
    )
    prefix_reuse: bool = Field(default=True, description="keep the blocks of finished prompts for later ones")
    tensor_parallel: int = Field(default=1, ge=1, description="GPUs that share the target (vllm, sglang)")
    executable: str | None = Field(
        default=None, description="command that starts vllm or sglang; null: the one on the PATH"
    )
    arguments: tuple[str, ...] = Field(
        default=(), description="further arguments of vllm or sglang, passed on as they are"
    )
    start_timeout_s: float = Field(default=1800.0, gt=0, description="seconds that loading may take")

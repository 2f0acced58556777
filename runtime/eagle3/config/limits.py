"""What one server takes on at a time, and how much one request may ask for."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Limits(BaseModel):
    """Limits of the server; a request beyond one of them is refused with the limit named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: int = Field(default=64, ge=1, le=1024, description="requests in the engine at a time")
    queue: int = Field(default=256, ge=0, description="requests waiting at most; one more gets HTTP 429")
    max_body_bytes: int = Field(
        default=6_291_456, ge=1024, description="bytes of a request body (SageMaker's own limit is 6,291,456)"
    )
    max_prompt_tokens: int | None = Field(
        default=None, ge=1, description="tokens of a prompt; null: the model's context"
    )
    max_output_tokens: int = Field(default=4096, ge=1, description="tokens of an answer that a request may ask for")
    max_answers: int = Field(default=16, ge=1, le=128, description="answers (`n`) that a request may ask for")
    timeout_s: float = Field(default=600.0, gt=0, description="seconds a request may take, waiting included")
    drain_s: float = Field(
        default=25.0, ge=0, description="seconds that running requests have after SIGTERM (SageMaker kills after 30)"
    )
    idle_connection_s: float = Field(
        default=30.0, gt=0, description="seconds after which a connection that sends nothing is closed"
    )

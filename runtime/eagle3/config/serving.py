"""How the server is reached, what it logs and what it measures."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Serving(BaseModel):
    """Address, access and logs of the server."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    host: str = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 in a container")
    port: int = Field(default=8080, ge=0, le=65535, description="port to listen on; SageMaker wants 8080")
    model_name: str | None = Field(
        default=None, min_length=1, description="name of the model in the API; null: the target's own"
    )
    api_keys_file: Path | None = Field(
        default=None, description="file with one `name:key` a line; null: no key is asked for"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="WARNING", description="of the server's log"
    )
    response_cache_entries: int = Field(
        default=0, ge=0, description="identical deterministic requests answered from memory; 0: none"
    )
    response_cache_bytes: int = Field(default=64 * 1024 * 1024, ge=0, description="memory of that cache at most")
    tracing_endpoint: str | None = Field(
        default=None, description="OpenTelemetry collector (OTLP over HTTP); null: no tracing"
    )


class MetricsSettings(BaseModel):
    """What goes to CloudWatch; Prometheus is always at /metrics."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    interval_s: float = Field(default=10.0, gt=0, description="seconds between two CloudWatch records")
    namespace: str = Field(default="Eagle3", min_length=1, max_length=255, description="CloudWatch namespace")
    emf: Literal["off", "stdout", "agent"] = Field(
        default="off",
        description="where embedded-metric-format records for CloudWatch go",
    )
    agent_endpoint: str | None = Field(default=None, description="agent address, such as tcp://127.0.0.1:25888")
    log_group: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="CloudWatch log group that an agent keeps the records in; null: /NAMESPACE/metrics",
    )
    dimensions: dict[str, str] = Field(
        default_factory=dict, description="CloudWatch dimensions of every metric, such as EndpointName or ClusterName"
    )

"""When the operators are called, whom, and how long logs are kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.section import Section

Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s.]+$", max_length=254)]
Webhook = Annotated[str, Field(pattern=r"^https://[^\s/]+\S*$", max_length=2048)]

# What CloudWatch Logs takes, from 30 days on (PutRetentionPolicy).
RetentionDays = Literal[
    30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653
]  # fmt: skip


class AlarmSettings(Section):
    """Subscribers and alarm lines; what each alarm means is in docs/runbooks."""

    emails: tuple[Email, ...] = Field(
        default=(), max_length=10, description="addresses told about alarms and the budget; each must confirm once"
    )
    webhooks: tuple[Webhook, ...] = Field(
        default=(), max_length=10, description="https:// addresses told about alarms; each must confirm once"
    )
    runbook_base_url: Webhook = Field(
        default="https://github.com/eagle3-kit/eagle3-kit/blob/main/docs/runbooks",
        description="folder of the runbooks; an alarm's text names NAME.md below it",
    )
    e2e_p99_ms: float = Field(
        default=500.0, gt=0, description="milliseconds from arrival to last token that 99 of 100 requests keep"
    )
    acceptance_rate: float = Field(
        default=1.3,
        gt=1,
        le=64,
        description="tokens per drafted cycle below which speculation costs more than it brings: 1 means that no "
        "drafted token is accepted, and drafting and the wider verification take about a third of a plain step",
    )
    queue_depth: float = Field(
        default=8.0, gt=0, description="requests waiting per replica from which a queue that does not fall is an alarm"
    )
    gpu_memory_share: float = Field(
        default=0.97, gt=0, le=1, description="share of the GPUs' memory; engines take 0.9 of it at once"
    )
    spot_interruptions_per_hour: float = Field(
        default=3, ge=1, description="spot interruptions in an hour from which they are an alarm"
    )
    server_error_share: float = Field(default=0.01, gt=0, lt=1, description="share of requests answered with 5xx")
    no_data_minutes: int = Field(default=5, ge=2, le=60, description="minutes without any metric")
    unschedulable_minutes: int = Field(
        default=20, ge=5, le=120, description="minutes that a pod may wait for a node; a GPU node takes about ten"
    )
    backlog_age_s: float = Field(
        default=900.0, gt=0, description="seconds that the oldest asynchronous request may wait; includes a cold start"
    )
    log_retention_days: RetentionDays = Field(default=365, description="days that logs are kept")

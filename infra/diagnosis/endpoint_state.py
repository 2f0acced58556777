"""The SageMaker endpoint: its status, why it failed, how many instances it has and wants, when it was changed last.

Facts: `EndpointFacts`. Knows no causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking, utc

# SageMaker has one code for whatever is not as it should be in a request.
_ABSENT = ("ValidationException", "ResourceNotFound")


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointFacts:
    """One endpoint."""

    name: str
    status: str
    """"InService", "Creating", "Updating", "RollingBack", "Failed" and others; "" if there is no such endpoint."""
    failure: str = ""
    """FailureReason."""
    instances: int | None = None
    """That run; None: not told."""
    wanted: int | None = None
    """That autoscaling or the deployment asks for."""
    messages: tuple[str, ...] = ()
    """What the variants' statuses say."""
    created: datetime | None = None
    changed: datetime | None = None
    """Of the last change; equal to `created` before the first."""
    deploying: bool = False
    """Whether a new version is on its way."""

    @property
    def exists(self) -> bool:
        """Whether there is such an endpoint."""
        return bool(self.status)


class EndpointCollector:
    """Describes the endpoint."""

    source: str = "SageMaker"

    def wanted(self, context: Context) -> bool:
        """For every alarm of a stack with an endpoint except the budget's."""
        return context.aws is not None and context.stack != "large" and context.alarm != "budget"

    def collect(self, context: Context) -> Evidence:
        """Status, variants, deployment."""
        looking = Looking(self.source, context)
        name = context.named("endpoint")
        answer = looking.read("sagemaker", "describe_endpoint", absent=_ABSENT, EndpointName=name)
        if answer is None:
            return looking.evidence()
        if not answer:
            looking.found(f"endpoint {name}", "does not exist in this account and region")
            return looking.evidence(EndpointFacts(name=name, status=""))
        facts = _facts(name, answer)
        said = f"{facts.status}, {facts.instances} of {facts.wanted} instances"
        looking.found(f"endpoint {name}", f"{said}{'; a new version is on its way' if facts.deploying else ''}")
        if facts.changed is not None:
            looking.found(f"endpoint {name}", "last changed", facts.changed)
        if facts.failure:
            looking.found("failure reason", facts.failure, facts.changed)
        for message in facts.messages:
            looking.found("variant", message)
        return looking.evidence(facts)


def _facts(name: str, answer: dict[str, Any]) -> EndpointFacts:
    variants = answer.get("ProductionVariants") or (answer.get("PendingDeploymentSummary") or {}).get(
        "ProductionVariants", []
    )
    created, changed = answer.get("CreationTime"), answer.get("LastModifiedTime")
    status = answer["EndpointStatus"]
    return EndpointFacts(
        name=name,
        status=status,
        failure=answer.get("FailureReason", ""),
        instances=_sum(variants, "CurrentInstanceCount"),
        wanted=_sum(variants, "DesiredInstanceCount"),
        messages=tuple(
            f"{one.get('Status')}: {one['StatusMessage']}"
            for variant in variants
            for one in variant.get("VariantStatus", [])
            if one.get("StatusMessage")
        ),
        created=None if created is None else utc(created),
        changed=None if changed is None else utc(changed),
        deploying="PendingDeploymentSummary" in answer or status in ("Updating", "RollingBack"),
    )


def _sum(variants: list[dict[str, Any]], key: str) -> int | None:
    counts = [variant[key] for variant in variants if key in variant]
    return sum(counts) if counts else None

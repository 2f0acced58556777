"""Quotas of the account that decide whether another GPU instance may be started.

Facts: `QuotaFacts`. Knows no causes and no settings: it reads what GPU instances of any family may have.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking

_EC2 = {
    "L-417A185B": "Running On-Demand P instances",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
}
"""Quotas that count vCPUs, by their code."""
_P_INSTANCES = ("L-417A185B", "L-7212CCBC")
SMALLEST_P_VCPUS = 96
"""Of p4d.24xlarge and p4de.24xlarge."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaFacts:
    """Quotas as applied to this account."""

    values: dict[str, float]
    """By name: vCPUs for EC2, instances for SageMaker."""

    @property
    def no_room(self) -> tuple[tuple[str, float], ...]:
        """Quotas that do not let a single p4d or p4de run, if neither on demand nor spot does."""
        found = [(_EC2[code], self.values[_EC2[code]]) for code in _P_INSTANCES if _EC2[code] in self.values]
        small = tuple(one for one in found if one[1] < SMALLEST_P_VCPUS)
        return small if len(small) == len(_P_INSTANCES) else ()


class QuotaCollector:
    """Reads service quotas."""

    source: str = "Service Quotas"

    def wanted(self, context: Context) -> bool:
        """Where the page asks whether the account may start more."""
        return context.aws is not None and context.alarm in ("pods-unschedulable", "queue-growing", "async-backlog")

    def collect(self, context: Context) -> Evidence:
        """GPU quotas of EC2 for a cluster, of SageMaker for an endpoint."""
        looking = Looking(self.source, context)
        values = _of_ec2(looking) if context.stack == "large" else _of_sagemaker(looking, context)
        for name, value in values.items():
            looking.found(name, f"{value:g}")
        return looking.evidence(QuotaFacts(values=values) if values else None)


def _of_ec2(looking: Looking) -> dict[str, float]:
    values: dict[str, float] = {}
    for code, name in _EC2.items():
        answer = looking.read(
            "service-quotas", "get_service_quota", absent=("NoSuchResourceException",), ServiceCode="ec2",
            QuotaCode=code,
        )  # fmt: skip
        if answer is None:
            break  # the same reason four times says no more than once
        if answer:
            values[f"{name}"] = float(answer["Quota"]["Value"])
    return values


def _of_sagemaker(looking: Looking, context: Context) -> dict[str, float]:
    """Quotas of the instance types that the endpoint's configuration names."""
    endpoint = looking.read(
        "sagemaker", "describe_endpoint", absent=("ValidationException",), EndpointName=context.named("endpoint")
    )
    if not endpoint:
        return {}
    config = looking.read(
        "sagemaker", "describe_endpoint_config", absent=("ValidationException",),
        EndpointConfigName=endpoint["EndpointConfigName"],
    )  # fmt: skip
    types = {one["InstanceType"] for one in (config or {}).get("ProductionVariants", []) if "InstanceType" in one}
    if not types:
        return {}
    quotas = looking.pages(
        "service-quotas", "list_service_quotas", "Quotas", most=40, ServiceCode="sagemaker", MaxResults=100
    )
    wanted = {f"{kind} for endpoint usage" for kind in types}
    return {one["QuotaName"]: float(one["Value"]) for one in quotas or () if one["QuotaName"] in wanted}

"""Log groups, encrypted and with an end, made before the service that would make them without either.

Knows no service: it is given names. `records` groups, which are read after a failure only, are of the class Infrequent
Access, whose ingestion costs half. `metrics` groups are of the standard class: no other has embedded metrics, metric
filters, subscriptions and live tail. A group's class cannot be changed later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from infra.checkov import skip
from infra.framework import Construct, aws
from infra.site import Site

_YEAR = 365


def endpoint_log_group(endpoint_name: str) -> str:
    """Where SageMaker writes what an endpoint's containers print."""
    return f"/aws/sagemaker/Endpoints/{endpoint_name}"


def cluster_log_group(cluster_name: str) -> str:
    """Where EKS writes the control plane's logs."""
    return f"/aws/eks/{cluster_name}/cluster"


def build_log_group(project_name: str) -> str:
    """Where CodeBuild writes the logs of a project."""
    return f"/aws/codebuild/{project_name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogGroupSpec:
    """One group."""

    id: str
    """PascalCase."""
    name: str
    """Full name."""
    kind: Literal["metrics", "records"]
    """metrics: watched, or holding embedded metrics; records: read after a failure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogGroupsProps:
    """What the groups of a stack need."""

    site: Site
    key_arn: str
    """Key of the logs domain: its policy lets in groups whose names hold the site's, by pattern (no cycle)."""
    retention_days: int
    """Of every group."""
    groups: tuple[LogGroupSpec, ...]
    """Ids and names are unique."""


class LogGroups(Construct):
    """Groups by id: `names["Endpoint"]`, `arns["Endpoint"]`, references that make their users wait for the group."""

    def __init__(self, scope: Any, id: str, props: LogGroupsProps) -> None:
        super().__init__(scope, id)
        names = [group.name for group in props.groups]
        assert len(set(names)) == len(names), f"names of log groups repeat: {names}"
        assert all(props.site.name in name for name in names), f"the key lets in {props.site.name} only; got {names}"
        self.names: dict[str, str] = {}
        self.arns: dict[str, str] = {}
        self.resources: dict[str, Any] = {}
        """For those who wait without a reference."""
        for spec in props.groups:
            group = aws.CloudwatchLogGroup(
                self,
                spec.id,
                name=spec.name,
                kms_key_id=props.key_arn,
                retention_in_days=props.retention_days,
                log_group_class="STANDARD" if spec.kind == "metrics" else "INFREQUENT_ACCESS",
            )
            if props.retention_days < _YEAR:
                skip(group, "CKV_AWS_338", "this environment's alarms.log_retention_days asks for less than a year")
            self.resources[spec.id] = group
            self.names[spec.id] = group.name
            self.arns[spec.id] = group.arn

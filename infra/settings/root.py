"""All settings of one environment, in the sections that the YAML file has. What differs between the stacks by default
is in `infra/environments/base.yaml`, below every environment.

Checks that need several sections are in `infra/settings/checks.py`, which stacks call.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from eagle3.config.deployment import DeploymentConfig
from eagle3.errors import ConfigError
from infra.catalogue.regions import partition
from infra.settings.alarms import AlarmSettings
from infra.settings.audit import AuditSettings
from infra.settings.budget import BudgetSettings
from infra.settings.cluster import ClusterSettings
from infra.settings.components import ComponentSettings
from infra.settings.edge import EdgeSettings
from infra.settings.endpoint import EndpointSettings
from infra.settings.network import NetworkSettings
from infra.settings.pools import PoolSettings
from infra.settings.section import Section
from infra.settings.state import StateSettings
from infra.settings.workload import WorkloadSettings


class EndpointStackSettings(Section):
    """A stack with one SageMaker endpoint (small, medium)."""

    network: NetworkSettings = Field(default_factory=NetworkSettings, description="VPC of the stack")
    endpoint: EndpointSettings = Field(default_factory=EndpointSettings, description="the endpoint")
    deployment: DeploymentConfig = Field(
        default_factory=DeploymentConfig,
        description="the deployment config: models, speculation, limits, engine (keys as for `eagle3 serve --config`)",
    )
    budget: BudgetSettings = Field(default_factory=BudgetSettings, description="monthly budget and cost tags")


class ClusterStackSettings(Section):
    """The stack with a private EKS cluster (large)."""

    network: NetworkSettings = Field(default_factory=NetworkSettings, description="VPC of the stack")
    cluster: ClusterSettings = Field(default_factory=ClusterSettings, description="the cluster")
    pools: tuple[PoolSettings, ...] = Field(
        default_factory=lambda: (PoolSettings(),), min_length=1, description="GPU node pools"
    )
    components: ComponentSettings = Field(default_factory=ComponentSettings, description="what runs in the cluster")
    edge: EdgeSettings = Field(default_factory=EdgeSettings, description="public edge")
    workload: WorkloadSettings = Field(
        default_factory=WorkloadSettings, description="release of the chart eagle3 in the cluster"
    )
    deployment: DeploymentConfig = Field(
        default_factory=DeploymentConfig, description="the deployment config (keys as for `eagle3 serve --config`)"
    )
    budget: BudgetSettings = Field(default_factory=BudgetSettings, description="monthly budget and cost tags")


class Settings(Section):
    """One environment."""

    name: str = Field(
        default="eagle3",
        pattern=r"^[a-z][a-z0-9]{0,11}$",
        description="first part of every name; 12 lower-case letters and digits at most",
    )
    environment: str = Field(
        default="dev", pattern=r"^[a-z][a-z0-9]{0,7}$", description="second part of every name; 8 characters at most"
    )
    region: str = Field(default="us-east-1", description="AWS region of the stacks")
    state: StateSettings = Field(default_factory=StateSettings, description="where Terraform keeps its state")
    audit: AuditSettings = Field(default_factory=AuditSettings, description="CloudTrail and the archive")
    alarms: AlarmSettings = Field(default_factory=AlarmSettings, description="alarm lines and who is told")
    small: EndpointStackSettings = Field(description="the stack small: one instance")
    medium: EndpointStackSettings = Field(description="the stack medium: larger instances, changed canary first")
    large: ClusterStackSettings = Field(description="the stack large: Kubernetes")
    model_bucket_days: int = Field(
        default=30, ge=1, le=3650, description="days that replaced versions of weights are kept"
    )
    destroy_data: bool = Field(
        default=False,
        description="let `cdktf destroy` delete buckets and repositories that are not empty, and keys after 7 days",
    )

    @property
    def partition(self) -> str:
        """Partition of the region."""
        return partition(self.region)

    @model_validator(mode="after")
    def _region_exists(self) -> Self:
        try:
            partition(self.region)
        except ConfigError as error:
            raise ValueError(f"region: {error}") from error
        return self

"""What every stack of the product is: a provider with cost tags, a backend, an account, a site.

Invariant: the only lookup is the account's number, so a plan needs no other permission to start.
"""

from __future__ import annotations

from typing import Any

from infra.cost_tags import cost_tags
from infra.framework import PROVIDER_VERSION, Output, S3Backend, Stack, aws
from infra.settings.budget import BudgetSettings
from infra.settings.root import Settings
from infra.site import Site


class KitStack(Stack):
    """One stack of the product in one environment."""

    def __init__(
        self,
        scope: Any,
        id: str,
        settings: Settings,
        *,
        zones: tuple[str, ...],
        budget: BudgetSettings,
        always_local: bool = False,
    ) -> None:
        super().__init__(scope, id)
        if settings.state.backend == "s3" and not always_local:
            self._keep_state_in_s3(settings)
        caller = aws.DataAwsCallerIdentity(self, "Caller")
        self.site = Site(
            name=f"{settings.name}-{settings.environment}-{id}",
            region=settings.region,
            partition=settings.partition,
            account_id=caller.account_id,
            zones=zones,
        )
        self.tags = cost_tags(self.site, budget, environment=settings.environment, stack=id)
        self._provider("Aws", region=settings.region)
        self.add_override("terraform.required_providers.aws.version", PROVIDER_VERSION)

    def edge_provider(self) -> Any:
        """A provider in us-east-1, where CloudFront's firewall, certificates and metrics live."""
        return self._provider("AwsEdge", alias="edge", region="us-east-1")

    def output(self, name: str, value: Any, description: str) -> None:
        """Show a value at the end of a deployment."""
        Output(self, name, value=value, description=description)

    def _provider(self, id: str, **values: Any) -> Any:
        return aws.AwsProvider(self, id, default_tags=[aws.AwsProviderDefaultTags(tags=self.tags)], **values)

    def _keep_state_in_s3(self, settings: Settings) -> None:
        state = settings.state
        S3Backend(
            self,
            bucket=state.bucket,
            key=f"{state.prefix}/{settings.environment}/{self.node.id}.tfstate",
            region=state.region or settings.region,
            encrypt=True,
            kms_key_id=state.kms_key_arn,
        )
        # cdktf 0.21 was made before Terraform could lock with a file in the bucket.
        self.add_override("terraform.backend.s3.use_lockfile", True)

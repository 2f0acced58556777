"""What comes before the other stacks, once an environment: the bucket of Terraform's state, and the repositories that
images are pushed to.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from infra.constructs.foundation.encryption import Encryption, EncryptionProps
from infra.constructs.foundation.registry import Registry, RegistryProps
from infra.constructs.foundation.state import StateBucket, StateBucketProps
from infra.constructs.foundation.storage import AccessLogBucket, AccessLogBucketProps
from infra.settings.budget import BudgetSettings
from infra.settings.root import Settings
from infra.stacks.base import KitStack
from infra.stacks.releases import RELEASED, RUNTIME


class BootstrapStack(KitStack):
    """State bucket and repositories; its own state stays local, since it cannot lie in what it makes."""

    def __init__(self, scope: Any, settings: Settings, today: date) -> None:
        super().__init__(scope, "bootstrap", settings, zones=(), budget=BudgetSettings(), always_local=True)
        protect = not settings.destroy_data
        key = Encryption(self, "Encryption", EncryptionProps(site=self.site, domains=("data",), protect=protect)).keys[
            "data"
        ]
        logs = AccessLogBucket(
            self,
            "AccessLogs",
            AccessLogBucketProps(
                site=self.site,
                expire_after_days=settings.audit.access_log_days,
                force_destroy=settings.destroy_data,
            ),
        )
        bucket = StateBucket(
            self,
            "StateStorage",
            StateBucketProps(site=self.site, key_arn=key.arn, log_bucket=logs.writable_name, protect=protect),
        )
        registry = Registry(
            self,
            "Registry",
            RegistryProps(site=self.site, key_arn=key.arn, repositories=RELEASED, force_delete=settings.destroy_data),
        )
        self.output("ImageRepository", registry.repositories[RUNTIME].url, "Where the runtime's image is pushed to")
        self.output("StateBucket", bucket.name, "Setting state.bucket of the other stacks")
        self.output("StateKeyArn", key.arn, "Setting state.kms_key_arn of the other stacks")

"""The bucket of Terraform's state.

Knows no stack whose state it keeps. Invariants: Terraform refuses to destroy it; every state that was ever written can
be brought back for a season; a lock is an object beside the state (`use_lockfile`), so there is no table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.constructs.foundation.bucket import SecureBucket, SecureBucketProps
from infra.framework import Construct
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class StateBucketProps:
    """What the bucket of states is made from."""

    site: Site
    key_arn: str
    """Key of the states, which hold whatever secrets resources have."""
    log_bucket: str | None = None
    """Bucket of the access log; null: none is kept."""
    noncurrent_days: int = 90
    """Days that an older state can be brought back."""
    protect: bool = True
    """Whether Terraform refuses to destroy it; false only where what is rehearsed is destroyed again."""


class StateBucket(Construct):
    """One bucket for the states of all stacks of an account."""

    def __init__(self, scope: Any, id: str, props: StateBucketProps) -> None:
        super().__init__(scope, id)
        exceptions = {
            "CKV_AWS_144": "a state is of use in the region of its resources, and older versions are kept",
            "CKV2_AWS_62": "Terraform reads the state itself; nothing waits for its changes",
        }
        if props.log_bucket is None:
            exceptions["CKV_AWS_18"] = "the state's bucket is made before any bucket for access logs"
        bucket = SecureBucket(
            self,
            "State",
            SecureBucketProps(
                site=props.site,
                suffix="state",
                key_arn=props.key_arn,
                log_bucket=props.log_bucket,
                noncurrent_days=props.noncurrent_days,
                protect=props.protect,
                exceptions=exceptions,
            ),
        )
        self.name: str = bucket.name
        """Token; the setting `state.bucket`."""
        self.arn: str = bucket.arn
        """Token."""

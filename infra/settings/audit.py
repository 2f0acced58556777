"""What is recorded of an account's use, and how long it is kept.

Knows no bucket and no trail. Invariant: records move to colder storage in order and outlive the shortest time that
each class of storage is billed for.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from infra.settings.section import Section

# S3 bills an object in these classes for at least so many days, also if it leaves earlier.
GLACIER_MINIMUM_DAYS = 90
DEEP_ARCHIVE_MINIMUM_DAYS = 180


class AuditSettings(Section):
    """CloudTrail, and the archive that it and the flow logs are written to."""

    cloudtrail: bool = Field(
        default=True,
        description="whether the stack has a trail; false where the organization has one already, since the second "
        "copy of management events is billed",
    )
    data_events: bool = Field(
        default=True, description="whether the trail records reads and writes of the model bucket too, billed by event"
    )
    log_group: bool = Field(
        default=False, description="whether the trail is copied to a log group to be queried at once, billed by the GB"
    )
    log_group_days: Literal[365, 400, 545, 731, 1096, 1827, 2557] = Field(
        default=365, description="days that this log group keeps events"
    )
    archive_after_days: int = Field(default=90, ge=30, le=3650, description="days after which records move to Glacier")
    deep_archive_after_days: int | None = Field(
        default=365, ge=120, le=3650, description="days after which they move to Glacier Deep Archive; null: never"
    )
    retention_days: int = Field(default=2557, ge=365, le=7305, description="days after which they are deleted")
    access_log_days: int = Field(
        default=365, ge=30, le=3650, description="days that access logs of buckets, load balancer and CDN are kept"
    )

    @model_validator(mode="after")
    def _storage_gets_colder(self) -> Self:
        last, stay = self.archive_after_days, GLACIER_MINIMUM_DAYS
        if self.deep_archive_after_days is not None:
            if self.deep_archive_after_days < last + stay:
                raise ValueError(
                    f"audit.deep_archive_after_days must be at least {last + stay} (archive_after_days + "
                    f"{GLACIER_MINIMUM_DAYS}, which Glacier bills in any case); got {self.deep_archive_after_days}"
                )
            last, stay = self.deep_archive_after_days, DEEP_ARCHIVE_MINIMUM_DAYS
        if self.retention_days < last + stay:
            raise ValueError(
                f"audit.retention_days must be at least {last + stay}: {stay} days in the coldest storage, which are "
                f"billed in any case; got {self.retention_days}; keep records longer or move them earlier"
            )
        return self

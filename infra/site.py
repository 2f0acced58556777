"""Where a stack's resources live and what they are called. Plain values, tokens of the framework among them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """One stack in one account and region."""

    name: str
    """Prefix of every name, such as "eagle3-dev-small"; 32 characters at most, lower case, digits and hyphens."""
    region: str
    """Such as "us-east-1"."""
    partition: str
    """"aws", "aws-cn" or "aws-us-gov"."""
    account_id: str
    """Twelve digits; a token until Terraform runs."""
    zones: tuple[str, ...]
    """Availability zones, two at least, in the order of the subnets."""

    @property
    def dns_suffix(self) -> str:
        """Last part of the host names of AWS services."""
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    @property
    def root_arn(self) -> str:
        """The account as a principal."""
        return f"arn:{self.partition}:iam::{self.account_id}:root"

    def arn(self, service: str, resource: str, *, regional: bool = True) -> str:
        """ARN of a resource of this account: `arn("sqs", "queue-name")`."""
        return f"arn:{self.partition}:{service}:{self.region if regional else ''}:{self.account_id}:{resource}"

    def named(self, suffix: str) -> str:
        """Name of a resource of this stack."""
        return f"{self.name}-{suffix}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subnet:
    """One subnet, as other constructs see it."""

    id: str
    """A token."""
    zone: str
    """Availability zone."""

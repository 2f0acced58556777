"""The public edge of the large stack: CloudFront, firewall, load balancer. Off by default."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from eagle3.errors import ConfigError
from infra.settings.section import Section

_CERTIFICATE = r"arn:aws:acm:%s:\d{12}:certificate/[\w-]+$"
Country = Annotated[str, Field(pattern=r"^[A-Z]{2}$")]


class EdgeSettings(Section):
    """A host name of your own, answered by CloudFront; nothing is public while it is off."""

    enabled: bool = Field(default=False, description="make the edge")
    domain_name: str | None = Field(
        default=None,
        pattern=r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$",
        max_length=253,
        description="host name of the API; its DNS record points to the distribution (output EdgeDomain)",
    )
    certificate_arn: str | None = Field(
        default=None, pattern="^" + _CERTIFICATE % "us-east-1", description="certificate of domain_name, in us-east-1"
    )
    origin_certificate_arn: str | None = Field(
        default=None,
        pattern="^" + _CERTIFICATE % r"[\w-]+",
        description="certificate of domain_name in the stack's region, for the load balancer",
    )
    allowed_countries: tuple[Country, ...] = Field(
        default=(), description="two-letter codes of the countries that are served; none: all"
    )
    rate_limit: int = Field(
        default=2000, ge=10, le=2_000_000_000, description="requests of one address in five minutes; more get 403"
    )
    price_class: Literal["PriceClass_100", "PriceClass_200", "PriceClass_All"] = Field(
        default="PriceClass_100", description="places that serve; 100: North America and Europe, the cheapest"
    )
    origin_timeout_s: int = Field(
        default=120,
        ge=60,
        le=120,
        description="seconds without a byte from the server after which CloudFront gives up; streams send sooner",
    )
    deletion_protection: bool = Field(default=True, description="refuse to delete the load balancer")

    @model_validator(mode="after")
    def _names_are_given(self) -> Self:
        needed = ("domain_name", "certificate_arn", "origin_certificate_arn")
        missing = [f"edge.{name}" for name in needed if getattr(self, name) is None]
        if self.enabled and missing:
            raise ValueError(
                f"edge.enabled needs {', '.join(missing)}: a host name and its certificates in us-east-1 and in the "
                "stack's region; or leave edge.enabled false"
            )
        return self


def check_edge(edge: EdgeSettings, *, region: str, has_internet_gateway: bool) -> None:
    """Call once region and network are known: ConfigError if the edge cannot exist there."""
    if not edge.enabled:
        return
    assert edge.origin_certificate_arn is not None
    found = edge.origin_certificate_arn.split(":")[3]
    if found != region:
        raise ConfigError(
            f"large.edge.origin_certificate_arn is a certificate of {found}; the load balancer is in {region}: "
            f"request one there for {edge.domain_name}"
        )
    if not has_internet_gateway:
        raise ConfigError(
            "large.edge.enabled needs a VPC with an internet gateway, because CloudFront demands one of a VPC origin "
            "(it carries no traffic of it); got a network without; set large.network.nat to single or per-zone"
        )

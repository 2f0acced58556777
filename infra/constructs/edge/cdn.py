"""CloudFront before the load balancer, which it reaches inside the VPC.

Knows no cluster. Generation is never cached and never asked for twice: a retried request costs GPU time again. Answers
to `GET /v1/models` are cached shortly, apart for every API key; `/health` for a second. Viewers speak TLS 1.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.checkov import skip
from infra.constructs.edge.cdn_policies import CdnPolicies
from infra.framework import Construct, aws
from infra.site import Site

CACHING_DISABLED = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
"""Managed cache policy."""
ALL_VIEWER = "216adef6-2c7f-47e4-b989-5492eafa07d3"
"""Managed origin request policy: every header, Host among them, by which the origin's certificate is chosen."""
CACHED_PATHS = ("/v1/models", "/v1/models/*", "/openapi.json", "/health")
VIEWER_TLS = "TLSv1.3_2025"
_ORIGIN = "load-balancer"


@dataclass(frozen=True, kw_only=True, slots=True)
class CdnProps:
    """What the distribution needs."""

    site: Site
    domain_name: str
    certificate_arn: str
    """Of the domain name, in us-east-1."""
    load_balancer_arn: str
    load_balancer_dns_name: str
    web_acl_arn: str
    log_bucket_domain_name: str
    """Domain name of a bucket that takes access control lists, by which CloudFront writes."""
    origin_timeout_s: int
    """60 to 120."""
    price_class: str
    allowed_countries: tuple[str, ...]
    """None: all."""


class Cdn(Construct):
    """VPC origin and distribution."""

    def __init__(self, scope: Any, id: str, props: CdnProps) -> None:
        super().__init__(scope, id)
        site = props.site
        origin = aws.CloudfrontVpcOrigin(
            self,
            "VpcOrigin",
            vpc_origin_endpoint_config=[
                aws.CloudfrontVpcOriginVpcOriginEndpointConfig(
                    name=site.named("edge"),
                    arn=props.load_balancer_arn,
                    http_port=80,
                    https_port=443,
                    origin_protocol_policy="https-only",
                    origin_ssl_protocols=[
                        aws.CloudfrontVpcOriginVpcOriginEndpointConfigOriginSslProtocols(items=["TLSv1.2"], quantity=1)
                    ],
                )
            ],
        )
        policies = CdnPolicies(self, "Policies", site)
        countries = list(props.allowed_countries)
        self._distribution = aws.CloudfrontDistribution(
            self,
            "Distribution",
            enabled=True,
            comment=site.name,
            aliases=[props.domain_name],
            http_version="http2and3",
            is_ipv6_enabled=True,
            price_class=props.price_class,
            web_acl_id=props.web_acl_arn,
            origin=[
                aws.CloudfrontDistributionOrigin(
                    origin_id=_ORIGIN,
                    domain_name=props.load_balancer_dns_name,
                    connection_attempts=1,
                    connection_timeout=5,
                    vpc_origin_config=aws.CloudfrontDistributionOriginVpcOriginConfig(
                        vpc_origin_id=origin.id,
                        origin_read_timeout=props.origin_timeout_s,
                        origin_keepalive_timeout=60,
                    ),
                )
            ],
            default_cache_behavior=aws.CloudfrontDistributionDefaultCacheBehavior(
                **_behavior(policies.headers_id),
                allowed_methods=["GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"],
                cache_policy_id=CACHING_DISABLED,
                compress=False,  # a stream must not wait for a block to compress
            ),
            ordered_cache_behavior=[
                aws.CloudfrontDistributionOrderedCacheBehavior(
                    **_behavior(policies.headers_id),
                    path_pattern=path,
                    allowed_methods=["GET", "HEAD", "OPTIONS"],
                    cache_policy_id=policies.health_id if path == "/health" else policies.cache_id,
                    compress=True,
                )
                for path in CACHED_PATHS
            ],
            logging_config=aws.CloudfrontDistributionLoggingConfig(
                bucket=props.log_bucket_domain_name, prefix="cloudfront/", include_cookies=False
            ),
            restrictions=aws.CloudfrontDistributionRestrictions(
                geo_restriction=aws.CloudfrontDistributionRestrictionsGeoRestriction(
                    restriction_type="whitelist" if countries else "none", locations=countries
                )
            ),
            viewer_certificate=aws.CloudfrontDistributionViewerCertificate(
                acm_certificate_arn=props.certificate_arn,
                ssl_support_method="sni-only",
                minimum_protocol_version=VIEWER_TLS,
            ),
        )
        self._except(countries)
        self.domain_name: str = self._distribution.domain_name
        """What the DNS record of the host name points to."""
        self.distribution_id: str = self._distribution.id

    def _except(self, countries: list[str]) -> None:
        distribution = self._distribution
        skip(distribution, "CKV_AWS_305", "an API has no document at its root; the load balancer answers 404 there")
        skip(distribution, "CKV_AWS_310", "a second try of a generation would be billed by the GPU a second time")
        skip(distribution, "CKV2_AWS_46", "the one origin is the load balancer; the bucket beside it takes the logs")
        if not countries:
            skip(distribution, "CKV_AWS_374", "edge.allowed_countries names none, so every country is served")


def _behavior(headers_id: str) -> dict[str, Any]:
    return {
        "target_origin_id": _ORIGIN,
        "viewer_protocol_policy": "https-only",
        "cached_methods": ["GET", "HEAD"],
        "origin_request_policy_id": ALL_VIEWER,
        "response_headers_policy_id": headers_id,
    }

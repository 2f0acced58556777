"""What CloudFront keeps of answers, for how long and under which key, and the headers that it adds. Knows no origin."""

from __future__ import annotations

from typing import Any

from infra.checkov import skip
from infra.framework import Construct, aws
from infra.site import Site

_PREFIX = "CloudfrontCachePolicyParametersInCacheKeyAndForwardedToOrigin"
_YEAR_S = 31_536_000


class CdnPolicies(Construct):
    """Two cache policies and one of response headers."""

    def __init__(self, scope: Any, id: str, site: Site) -> None:
        super().__init__(scope, id)
        self.cache_id: str = self._cache("Models", site.named("models"), ttl_s=60)
        """Answers that change with a deployment only."""
        self.health_id: str = self._cache("Health", site.named("health"), ttl_s=1)
        """Probes: one a second reaches the server, however many there are."""
        self.headers_id: str = self._headers(site)

    def _cache(self, id: str, name: str, *, ttl_s: int) -> str:
        part = {kind: getattr(aws, _PREFIX + kind) for kind in ("HeadersConfig", "CookiesConfig", "QueryStringsConfig")}
        parameters = getattr(aws, _PREFIX)(
            # An answer to one API key is not given to another, nor to a caller without one.
            headers_config=part["HeadersConfig"](
                header_behavior="whitelist",
                headers=getattr(aws, _PREFIX + "HeadersConfigHeaders")(items=["Authorization"]),
            ),
            cookies_config=part["CookiesConfig"](cookie_behavior="none"),
            query_strings_config=part["QueryStringsConfig"](query_string_behavior="none"),
            enable_accept_encoding_brotli=True,
            enable_accept_encoding_gzip=True,
        )
        policy = aws.CloudfrontCachePolicy(
            self,
            id,
            name=name,
            min_ttl=0,
            default_ttl=ttl_s,
            max_ttl=ttl_s,
            parameters_in_cache_key_and_forwarded_to_origin=parameters,
        )
        return str(policy.id)

    def _headers(self, site: Site) -> str:
        prefix = "CloudfrontResponseHeadersPolicySecurityHeadersConfig"
        security = getattr(aws, prefix)(
            strict_transport_security=getattr(aws, prefix + "StrictTransportSecurity")(
                access_control_max_age_sec=_YEAR_S, override=True
            ),
            content_type_options=getattr(aws, prefix + "ContentTypeOptions")(override=True),
            frame_options=getattr(aws, prefix + "FrameOptions")(frame_option="DENY", override=True),
            referrer_policy=getattr(aws, prefix + "ReferrerPolicy")(referrer_policy="no-referrer", override=True),
        )
        removed = aws.CloudfrontResponseHeadersPolicyRemoveHeadersConfigItems(header="Server")
        policy = aws.CloudfrontResponseHeadersPolicy(
            self,
            "Headers",
            name=site.named("edge"),
            security_headers_config=security,
            remove_headers_config=aws.CloudfrontResponseHeadersPolicyRemoveHeadersConfig(items=[removed]),
        )
        skip(policy, "CKV_AWS_259", "preloading commits the whole domain for years: its owner decides, not one host")
        return str(policy.id)

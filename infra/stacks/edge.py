"""The public edge of the large stack: load balancer, CloudFront, firewall."""

from __future__ import annotations

from dataclasses import dataclass

from infra.constructs.edge.cdn import Cdn, CdnProps
from infra.constructs.edge.firewall import Firewall, FirewallProps
from infra.constructs.edge.load_balancer import LoadBalancer, LoadBalancerProps
from infra.framework import aws
from infra.settings.alarms import AlarmSettings
from infra.settings.edge import EdgeSettings
from infra.stacks.base import KitStack
from infra.stacks.foundation import Foundation

_LONGER_THAN_CDN_S = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """What the rest of the stack needs of it."""

    target_group_arn: str
    """Where pods are registered."""
    load_balancer_suffix: str
    """Dimension of its metrics."""


def edge_of(
    stack: KitStack,
    settings: EdgeSettings,
    alarms: AlarmSettings,
    *,
    base: Foundation,
    node_group_id: str,
    port: int,
) -> Edge | None:
    """Make the edge where the settings ask for one."""
    if not settings.enabled:
        return None
    assert settings.domain_name is not None
    assert settings.certificate_arn is not None
    assert settings.origin_certificate_arn is not None
    prefixes = aws.DataAwsEc2ManagedPrefixList(
        stack, "CloudFrontAddresses", name="com.amazonaws.global.cloudfront.origin-facing"
    )
    balancer = LoadBalancer(
        stack,
        "LoadBalancer",
        LoadBalancerProps(
            site=stack.site,
            vpc_id=base.network.vpc_id,
            subnet_ids=tuple(subnet.id for subnet in base.network.private_subnets),
            certificate_arn=settings.origin_certificate_arn,
            origin_prefix_list_id=prefixes.id,
            target_security_group_id=node_group_id,
            target_port=port,
            log_bucket=base.access_logs.writable_name,
            idle_timeout_s=settings.origin_timeout_s + _LONGER_THAN_CDN_S,
            deletion_protection=settings.deletion_protection,
        ),
    )
    firewall = Firewall(
        stack,
        "Firewall",
        FirewallProps(
            site=stack.site,
            provider=stack.edge_provider(),
            rate_limit=settings.rate_limit,
            log_retention_days=alarms.log_retention_days,
        ),
    )
    cdn = Cdn(
        stack,
        "Cdn",
        CdnProps(
            site=stack.site,
            domain_name=settings.domain_name,
            certificate_arn=settings.certificate_arn,
            load_balancer_arn=balancer.arn,
            load_balancer_dns_name=balancer.dns_name,
            web_acl_arn=firewall.arn,
            log_bucket_domain_name=base.access_logs.domain_name,
            origin_timeout_s=settings.origin_timeout_s,
            price_class=settings.price_class,
            allowed_countries=settings.allowed_countries,
        ),
    )
    stack.output("EdgeDomain", cdn.domain_name, f"Where the DNS record of {settings.domain_name} points to")
    return Edge(target_group_arn=balancer.target_group_arn, load_balancer_suffix=balancer.arn_suffix)

"""Security group of an endpoint's container: nothing comes in this way, HTTPS goes out to AWS.

SageMaker reaches the container on a path of its own, not through the VPC. Knows no subnets. Invariant: no rule lets
anything in, and only weights from the Hub open the way to the internet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.checkov import skip
from infra.framework import Construct, aws
from infra.site import Site

_HTTPS = 443


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointSecurityGroupProps:
    """Where HTTPS may go."""

    site: Site
    """Names."""
    vpc_id: str
    """The VPC."""
    vpc_cidr: str
    """Its range, in which the interface endpoints are."""
    s3_prefix_list_id: str
    """Addresses of S3, which the gateway endpoint leads to."""
    to_internet: bool
    """Whether the container downloads its weights from the Hub."""


class EndpointSecurityGroup(Construct):
    """A group without ingress."""

    def __init__(self, scope: Any, id: str, props: EndpointSecurityGroupProps) -> None:
        super().__init__(scope, id)
        group = aws.SecurityGroup(
            self,
            "Group",
            name=props.site.named("endpoint"),
            description="Containers of the endpoint: HTTPS out to AWS, nothing in",
            vpc_id=props.vpc_id,
            tags={"Name": props.site.named("endpoint")},
        )
        skip(group, "CKV2_AWS_5", "the SageMaker model uses the group; the check does not know models as users")
        self._let_out(group, "ToVpc", "AWS services through the interface endpoints", cidr_ipv4=props.vpc_cidr)
        self._let_out(group, "ToS3", "S3 through the gateway endpoint", prefix_list_id=props.s3_prefix_list_id)
        if props.to_internet:
            self._let_out(group, "ToInternet", "weights from the Hugging Face Hub", cidr_ipv4="0.0.0.0/0")
        self.security_group_id: str = group.id
        """The group."""

    def _let_out(self, group: Any, id: str, description: str, **destination: str) -> None:
        aws.VpcSecurityGroupEgressRule(
            self,
            id,
            security_group_id=group.id,
            description=description,
            ip_protocol="tcp",
            from_port=_HTTPS,
            to_port=_HTTPS,
            **destination,
        )

"""Private ways from a VPC to AWS services.

Knows no resource of the services; `infra/catalogue/interface_services.py` says which of them a stack calls.
Invariants: interface endpoints answer under the services' own names and only to the VPC on port 443; through the S3
endpoint only buckets of this account and those that AWS serves image layers and packages from can be reached, so that
it is no way out for data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.catalogue.interface_services import INTERFACE_SERVICES, InterfaceService
from infra.framework import Construct, aws
from infra.policy import Statement, policy_document
from infra.site import Site

_S3_ACTIONS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetBucketLocation",
    "s3:GetObject",
    "s3:GetObjectAttributes",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:ListBucket",
    "s3:ListBucketMultipartUploads",
    "s3:ListBucketVersions",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "s3:PutObjectTagging",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class VpcEndpointsProps:
    """What the endpoints of a VPC are made from."""

    site: Site
    vpc_id: str
    """Token."""
    cidr: str
    """Range of the VPC: who may call the interface endpoints."""
    route_table_ids: Sequence[str]
    """Tables that get a route to S3."""
    subnet_ids: Sequence[str]
    """One subnet a zone, for the interface endpoints."""
    services: Sequence[InterfaceService]
    """`cluster_services()`, `endpoint_services()` or a list of one's own."""
    readable_buckets: Sequence[str] = ()
    """ARNs of buckets of other accounts that may be read, such as one with models."""


class VpcEndpoints(Construct):
    """The S3 gateway endpoint, and an interface endpoint for each service."""

    def __init__(self, scope: Any, id: str, props: VpcEndpointsProps) -> None:
        super().__init__(scope, id)
        assert set(props.services) <= set(INTERFACE_SERVICES), f"not interface services: {props.services}"
        assert len(set(props.services)) == len(props.services), f"services repeat: {props.services}"
        site = props.site
        gateway = aws.VpcEndpoint(
            self,
            "S3",
            vpc_id=props.vpc_id,
            service_name=_service_name(site, "s3"),
            vpc_endpoint_type="Gateway",
            route_table_ids=list(props.route_table_ids),
            policy=policy_document(_s3_statements(site, props.readable_buckets)),
            tags={"Name": site.named("s3")},
        )
        self.s3_prefix_list_id: str = gateway.prefix_list_id
        """S3's addresses, for rules of security groups that may reach S3 and nothing else."""
        self.services: tuple[InterfaceService, ...] = tuple(props.services)
        """Services that have an interface endpoint."""
        self.security_group_id: str | None = None
        """Group of the interface endpoints, null where there are none."""
        if props.services:
            self.security_group_id = self._interfaces(props)

    def _interfaces(self, props: VpcEndpointsProps) -> str:
        site = props.site
        group = aws.SecurityGroup(
            self,
            "SecurityGroup",
            name=site.named("endpoints"),
            description="AWS service endpoints: HTTPS from inside the VPC, nothing out",
            vpc_id=props.vpc_id,
            tags={"Name": site.named("endpoints")},
        )
        aws.VpcSecurityGroupIngressRule(
            self,
            "Https",
            security_group_id=group.id,
            description="HTTPS from the VPC",
            cidr_ipv4=props.cidr,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
        )
        for service in props.services:
            aws.VpcEndpoint(
                self,
                "".join(word.capitalize() for word in re.split(r"[.-]", service)),
                vpc_id=props.vpc_id,
                service_name=_service_name(site, service),
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(props.subnet_ids),
                security_group_ids=[group.id],
                tags={"Name": site.named(service.replace(".", "-"))},
            )
        return str(group.id)


def _service_name(site: Site, service: str) -> str:
    return f"com.amazonaws.{site.region}.{service}"


def _s3_statements(site: Site, readable_buckets: Sequence[str]) -> list[Statement]:
    statements = [
        Statement(
            sid="OwnBuckets",
            actions=_S3_ACTIONS,
            accounts=["*"],
            conditions={"StringEquals": {"aws:ResourceAccount": site.account_id}},
        ),
        Statement(
            sid="ImageLayersAndPackages",
            actions=["s3:GetObject"],
            accounts=["*"],
            resources=[
                # Layers of ECR images, and the package repositories of Amazon Linux 2023.
                f"arn:{site.partition}:s3:::prod-{site.region}-starport-layer-bucket/*",
                f"arn:{site.partition}:s3:::al2023-repos-{site.region}-de612dc2/*",
            ],
        ),
    ]
    if readable_buckets:
        statements.append(
            Statement(
                sid="ReadableBuckets",
                actions=["s3:GetBucketLocation", "s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket"],
                accounts=["*"],
                resources=[arn for bucket in readable_buckets for arn in (bucket, f"{bucket}/*")],
            )
        )
    return statements

"""What every deploying stack stands on: network, keys, buckets, records, a topic, a budget.

Knows neither endpoint nor cluster. Invariant: nothing in it but the network differs between the stacks, so a team that
knows one of them knows all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.catalogue.interface_services import InterfaceService
from infra.constructs.foundation.audit import AuditArchive, AuditArchiveProps, AuditTrail, AuditTrailProps
from infra.constructs.foundation.encryption import Encryption, EncryptionProps, Key
from infra.constructs.foundation.flow_logs import FlowLogs, FlowLogsProps
from infra.constructs.foundation.key_policies import Domain
from infra.constructs.foundation.network import Network, NetworkProps
from infra.constructs.foundation.storage import AccessLogBucket, AccessLogBucketProps, ModelBucket, ModelBucketProps
from infra.constructs.foundation.vpc_endpoints import VpcEndpoints, VpcEndpointsProps
from infra.constructs.operations.budget import Budget, BudgetProps
from infra.constructs.operations.notifications import Notifications, NotificationsProps
from infra.cost_tags import PROJECT
from infra.settings.budget import BudgetSettings
from infra.settings.network import NetworkSettings
from infra.settings.root import Settings
from infra.stacks.base import KitStack

_DAYS_TO_BRING_BACK = 30
_DAYS_TO_BRING_BACK_IN_TRIALS = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundationProps:
    """What differs between the stacks."""

    settings: Settings
    network: NetworkSettings
    budget: BudgetSettings
    domains: Sequence[Domain]
    """What is encrypted."""
    services: Sequence[InterfaceService]
    """AWS services reached without leaving the VPC."""
    cluster_name: str | None = None
    """Cluster that runs in the private subnets."""
    has_edge: bool = False
    """Whether CloudFront and a load balancer serve, and log."""


class Foundation:
    """Constructs of a stack that others are given outputs of."""

    def __init__(self, stack: KitStack, props: FoundationProps) -> None:
        settings, site = props.settings, stack.site
        self.keys: Mapping[Domain, Key] = Encryption(
            stack,
            "Encryption",
            EncryptionProps(
                site=site,
                domains=props.domains,
                deletion_days=_DAYS_TO_BRING_BACK_IN_TRIALS if settings.destroy_data else _DAYS_TO_BRING_BACK,
            ),
        ).keys
        self.access_logs = AccessLogBucket(
            stack,
            "AccessLogs",
            AccessLogBucketProps(
                site=site,
                expire_after_days=settings.audit.access_log_days,
                load_balancers=props.has_edge,
                cdn=props.has_edge,
                force_destroy=settings.destroy_data,
            ),
        )
        self.models = ModelBucket(
            stack,
            "ModelStorage",
            ModelBucketProps(
                site=site,
                key_arn=self.keys["data"].arn,
                log_bucket=self.access_logs.writable_name,
                noncurrent_days=settings.model_bucket_days,
                # A cluster's bootstrap starts when its plan is written to the bucket.
                events=props.cluster_name is not None,
                force_destroy=settings.destroy_data,
            ),
        )
        self.network = Network(
            stack,
            "Network",
            NetworkProps(site=site, settings=props.network, cluster_name=props.cluster_name, cdn_origin=props.has_edge),
        )
        self.vpc_endpoints = VpcEndpoints(
            stack,
            "VpcEndpoints",
            VpcEndpointsProps(
                site=site,
                vpc_id=self.network.vpc_id,
                cidr=self.network.cidr,
                route_table_ids=(*self.network.private_route_table_ids, self.network.intra_route_table_id),
                subnet_ids=[subnet.id for subnet in self.network.intra_subnets],
                services=props.services,
            ),
        )
        self._records(stack, props)
        self.notifications = Notifications(
            stack,
            "Notifications",
            NotificationsProps(
                site=site,
                key_arn=self.keys["notifications"].arn,
                emails=settings.alarms.emails,
                webhooks=settings.alarms.webhooks,
            ),
        )
        Budget(
            stack,
            "Budget",
            BudgetProps(
                site=site,
                settings=props.budget,
                tag_key=PROJECT,
                tag_value=stack.tags[PROJECT],
                topic_arn=self.notifications.budget_topic_arn,
                emails=settings.alarms.emails,
            ),
        )
        stack.output("ModelBucketName", self.models.name, "Bucket that weights are uploaded to")
        stack.output("AlarmTopicArn", self.notifications.topic_arn, "Topic that alarms and the budget publish to")

    def _records(self, stack: KitStack, props: FoundationProps) -> None:
        """CloudTrail, flow logs and the archive that both write to."""
        settings, site = props.settings, stack.site
        logs_key = self.keys["logs"].arn
        archive = AuditArchive(
            stack,
            "Archive",
            AuditArchiveProps(
                site=site,
                key_arn=logs_key,
                log_bucket=self.access_logs.writable_name,
                settings=settings.audit,
                force_destroy=settings.destroy_data,
            ),
        )
        if settings.audit.cloudtrail:
            AuditTrail(
                stack,
                "Trail",
                AuditTrailProps(
                    site=site,
                    bucket=archive.writable_name,
                    key_arn=logs_key,
                    notifications_key_arn=self.keys["notifications"].arn,
                    settings=settings.audit,
                    data_bucket_arns=[self.models.arn],
                ),
            )
        if props.network.flow_logs.enabled:
            FlowLogs(
                stack,
                "FlowLogs",
                FlowLogsProps(
                    site=site,
                    vpc_id=self.network.vpc_id,
                    settings=props.network.flow_logs,
                    archive_arn=archive.writable_arn,
                    key_arn=logs_key,
                ),
            )

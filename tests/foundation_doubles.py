"""Network, keys, buckets, registry and audit wired together as a stack wires them."""

from __future__ import annotations

from functools import cache

from infra.catalogue.interface_services import cluster_services
from infra.constructs.foundation.audit import AuditArchive, AuditArchiveProps, AuditTrail, AuditTrailProps
from infra.constructs.foundation.encryption import Encryption, EncryptionProps
from infra.constructs.foundation.flow_logs import FlowLogs, FlowLogsProps
from infra.constructs.foundation.key_policies import DOMAINS
from infra.constructs.foundation.network import Network, NetworkProps
from infra.constructs.foundation.registry import Registry, RegistryProps
from infra.constructs.foundation.storage import AccessLogBucket, AccessLogBucketProps, ModelBucket, ModelBucketProps
from infra.constructs.foundation.vpc_endpoints import VpcEndpoints, VpcEndpointsProps
from infra.settings.audit import AuditSettings
from infra.settings.network import NetworkSettings
from infra_doubles import SITE, Synthesized, synthesize


def foundation(scope, network, audit, *, site=SITE, services=None, edge=False, destroyable=False):
    """Everything that a stack stands on."""
    keys = Encryption(scope, "Encryption", EncryptionProps(site=site, domains=DOMAINS)).keys
    logs = AccessLogBucket(
        scope,
        "AccessLogs",
        AccessLogBucketProps(site=site, load_balancers=edge, cdn=edge, force_destroy=destroyable),
    )
    models = ModelBucket(
        scope,
        "Models",
        ModelBucketProps(site=site, key_arn=keys["data"].arn, log_bucket=logs.writable_name, force_destroy=destroyable),
    )
    Registry(
        scope,
        "Registry",
        RegistryProps(
            site=site,
            key_arn=keys["data"].arn,
            repositories=("runtime", "mirror/keda-operator"),
            force_delete=destroyable,
        ),
    )
    archive = AuditArchive(
        scope,
        "Archive",
        AuditArchiveProps(
            site=site,
            key_arn=keys["logs"].arn,
            log_bucket=logs.writable_name,
            settings=audit,
            force_destroy=destroyable,
        ),
    )
    if audit.cloudtrail:
        AuditTrail(
            scope,
            "Trail",
            AuditTrailProps(
                site=site,
                bucket=archive.writable_name,
                key_arn=keys["logs"].arn,
                notifications_key_arn=keys["notifications"].arn,
                settings=audit,
                data_bucket_arns=(models.arn,),
            ),
        )
    vpc = Network(
        scope, "Network", NetworkProps(site=site, settings=network, cluster_name="eagle3-test", cdn_origin=edge)
    )
    if network.flow_logs.enabled:
        FlowLogs(
            scope,
            "FlowLogs",
            FlowLogsProps(
                site=site,
                vpc_id=vpc.vpc_id,
                settings=network.flow_logs,
                archive_arn=archive.writable_arn,
                key_arn=keys["logs"].arn,
            ),
        )
    VpcEndpoints(
        scope,
        "VpcEndpoints",
        VpcEndpointsProps(
            site=site,
            vpc_id=vpc.vpc_id,
            cidr=vpc.cidr,
            route_table_ids=(*vpc.private_route_table_ids, vpc.intra_route_table_id),
            subnet_ids=[subnet.id for subnet in vpc.intra_subnets],
            services=cluster_services(edge=edge) if services is None else services,
        ),
    )


@cache
def default() -> Synthesized:
    """As the settings' defaults have it."""
    return synthesize(lambda scope: foundation(scope, NetworkSettings(), AuditSettings()))


@cache
def everything() -> Synthesized:
    """With all that is off by default."""
    network = NetworkSettings(nat="per-zone", flow_logs={"destination": "cloudwatch", "traffic_type": "ALL"})
    return synthesize(lambda scope: foundation(scope, network, AuditSettings(log_group=True), edge=True))

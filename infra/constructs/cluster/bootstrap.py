"""The project inside the VPC that installs what runs in the cluster, since the cluster's API is private.

Knows no values: `BootstrapPlan` writes them into the bucket. It is made before the cluster, which lets its security
group and role in. Invariants: it reaches the cluster, AWS's endpoints and S3, and nothing else; in AWS it may read its
artifacts and describe its one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.constructs.cluster.artifact_mirror import ArtifactStore
from infra.constructs.cluster.build_project import BuildLog, BuildNetwork, BuildProject, BuildProjectProps
from infra.framework import Construct, aws
from infra.kubernetes.bootstrap_buildspec import bootstrap_buildspec
from infra.policy import Statement
from infra.settings.components import ComponentSettings
from infra.site import Site, Subnet

SUFFIX = "bootstrap"
TIMEOUT_MIN = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterBootstrapProps:
    """What the bootstrap is made from."""

    site: Site
    """Where it is."""
    components: ComponentSettings
    """What it installs."""
    pools: tuple[str, ...]
    """Names of the node pools."""
    own_chart: bool
    """Whether the stack uploads the kit's own chart (`BootstrapPlanProps.own_chart`)."""
    cluster_name: str
    """Plain text, since the cluster is made later."""
    vpc_id: str
    """The cluster's VPC."""
    vpc_cidr: str
    """Its range: where the cluster and the interface endpoints are."""
    subnets: tuple[Subnet, ...]
    """Private subnets."""
    s3_prefix_list_id: str
    """S3's addresses behind the gateway endpoint."""
    isolated: bool
    """Whether every service of AWS is reached through endpoints of the VPC (no NAT)."""
    store: ArtifactStore
    """Where its artifacts are."""
    log: BuildLog
    """Its log group."""


class ClusterBootstrap(Construct):
    """The CodeBuild project `bootstrap`, its role and its security group."""

    def __init__(self, scope: Any, id: str, props: ClusterBootstrapProps) -> None:
        super().__init__(scope, id)
        site, store = props.site, props.store
        name = site.named(SUFFIX)
        group = aws.SecurityGroup(
            self,
            "SecurityGroup",
            name=name,
            description="Builds that install into the cluster: HTTPS out, nothing in",
            vpc_id=props.vpc_id,
            tags={"Name": name},
        )
        for rule, where in _destinations(props).items():
            aws.VpcSecurityGroupEgressRule(
                self, rule, security_group_id=group.id, ip_protocol="tcp", from_port=443, to_port=443, **where
            )
        project = BuildProject(
            self,
            "Bootstrap",
            BuildProjectProps(
                site=site,
                suffix=SUFFIX,
                description=f"installs what runs in the cluster {props.cluster_name}",
                buildspec=bootstrap_buildspec(props.components, pools=props.pools, own_chart=props.own_chart),
                environment={
                    "BUCKET": store.bucket,
                    "PREFIX": store.prefix,
                    "CLUSTER": props.cluster_name,
                    "ACTION": "install",
                },
                statements=_statements(site, store, props.cluster_name),
                log=props.log,
                key_arn=store.key_arn,
                timeout_min=TIMEOUT_MIN,
                network=BuildNetwork(vpc_id=props.vpc_id, subnets=props.subnets, security_group_id=group.id),
            ),
        )
        self.project_name: str = project.project_name
        """Token."""
        self.project_arn: str = project.project_arn
        """Token."""
        self.role_arn: str = project.role_arn
        """Token; needs an access entry with administrator's rights."""
        self.security_group_id: str = group.id
        """Token; the control plane lets it in on port 443."""
        self.remove_command: str = (
            f"aws codebuild start-build --region {site.region} --project-name {name} "
            "--environment-variables-override name=ACTION,value=remove"
        )
        """What to run, and wait for, before the stack is destroyed: it drains the nodes that Karpenter launched."""


def _destinations(props: ClusterBootstrapProps) -> dict[str, dict[str, str]]:
    places = {
        "ToVpc": {"cidr_ipv4": props.vpc_cidr, "description": "API of the cluster and endpoints of AWS services"},
        "ToS3": {"prefix_list_id": props.s3_prefix_list_id, "description": "artifacts, by the gateway endpoint of S3"},
    }
    if not props.isolated:
        places["ToServices"] = {"cidr_ipv4": "0.0.0.0/0", "description": "AWS services, by NAT"}
    return places


def _statements(site: Site, store: ArtifactStore, cluster_name: str) -> list[Statement]:
    return [
        Statement(
            sid="FindCluster",
            actions=["eks:DescribeCluster"],
            resources=[site.arn("eks", f"cluster/{cluster_name}")],
        ),
        Statement(sid="ReadArtifacts", actions=["s3:GetObject"], resources=[f"{store.bucket_arn}/{store.prefix}/*"]),
        Statement(
            sid="DecryptArtifacts",
            actions=["kms:Decrypt"],
            resources=[store.key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"s3.{site.region}.{site.dns_suffix}"}},
        ),
    ]

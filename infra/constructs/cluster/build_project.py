"""A CodeBuild project without source or artifacts: a script with a role, a log and a time limit.

Knows no script. Invariants: one build at a time; never privileged; the role can be taken by this project alone, and has
what the script needs and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document, trust_policy
from infra.site import Site, Subnet

# Amazon Linux 2023 with the AWS command line; CodeBuild's own image, so it needs no registry.
BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildLog:
    """Where a project writes."""

    name: str
    """Name of the log group."""
    arn: str
    """Its ARN, without ":*"."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildNetwork:
    """Where in a VPC a project runs."""

    vpc_id: str
    """The VPC."""
    subnets: tuple[Subnet, ...]
    """Private subnets."""
    security_group_id: str
    """Group of the builds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildProjectProps:
    """What a project is made from."""

    site: Site
    """Where it is."""
    suffix: str
    """Last part of its name, such as "mirror"; lower case, 20 characters at most."""
    description: str
    """What it does, in a sentence."""
    buildspec: str
    """YAML."""
    environment: Mapping[str, str]
    """Plain variables; nothing secret."""
    statements: Sequence[Statement]
    """What the script may do in AWS, beside writing its log."""
    log: BuildLog
    """Its log group."""
    key_arn: str
    """Key of the domain data."""
    timeout_min: int
    """Minutes until a build is stopped."""
    network: BuildNetwork | None = None
    """Null: outside the VPC, with internet."""


class BuildProject(Construct):
    """A project and its role."""

    def __init__(self, scope: Any, id: str, props: BuildProjectProps) -> None:
        super().__init__(scope, id)
        site, name = props.site, props.site.named(props.suffix)
        role = aws.IamRole(
            self,
            "Role",
            name=name,
            description=f"CodeBuild project {name}: {props.description}",
            assume_role_policy=trust_policy(
                "codebuild.amazonaws.com",
                conditions={
                    "StringEquals": {"aws:SourceAccount": site.account_id},
                    "ArnEquals": {"aws:SourceArn": site.arn("codebuild", f"project/{name}")},
                },
            ),
        )
        rights = aws.IamRolePolicy(
            self,
            "RolePolicy",
            name="build",
            role=role.name,
            policy=policy_document([*_logging(props.log), *_networking(site, props.network), *props.statements]),
        )
        network = props.network
        project = aws.CodebuildProject(
            self,
            "Project",
            name=name,
            description=props.description,
            service_role=role.arn,
            build_timeout=props.timeout_min,
            queued_timeout=60,
            concurrent_build_limit=1,
            encryption_key=props.key_arn,
            source={"type": "NO_SOURCE", "buildspec": props.buildspec},
            artifacts={"type": "NO_ARTIFACTS"},
            environment={
                "type": "LINUX_CONTAINER",
                "compute_type": "BUILD_GENERAL1_SMALL",
                "image": BUILD_IMAGE,
                "image_pull_credentials_type": "CODEBUILD",
                "privileged_mode": False,
                "environment_variable": [
                    aws.CodebuildProjectEnvironmentEnvironmentVariable(name=key, value=value)
                    for key, value in props.environment.items()
                ],
            },
            logs_config={"cloudwatch_logs": {"status": "ENABLED", "group_name": props.log.name}},
            vpc_config=None
            if network is None
            else {
                "vpc_id": network.vpc_id,
                "subnets": [subnet.id for subnet in network.subnets],
                "security_group_ids": [network.security_group_id],
            },
            # CodeBuild tries its role's rights to the VPC when a project is made.
            depends_on=[rights],
        )
        self.project_name: str = project.name
        """Token."""
        self.project_arn: str = project.arn
        """Token."""
        self.role_arn: str = role.arn
        """Token."""


def _logging(log: BuildLog) -> list[Statement]:
    return [
        Statement(
            sid="WriteLog", actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[f"{log.arn}:log-stream:*"]
        )
    ]


def _networking(site: Site, network: BuildNetwork | None) -> list[Statement]:
    """What CodeBuild needs of its role to put a build into a VPC."""
    if network is None:
        return []
    subnets = [site.arn("ec2", f"subnet/{subnet.id}") for subnet in network.subnets]
    interfaces = site.arn("ec2", "network-interface/*")
    return [
        Statement(
            sid="SeeNetwork",
            actions=[
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
        ),
        Statement(
            sid="CreateInterface",
            actions=["ec2:CreateNetworkInterface"],
            resources=[interfaces, *subnets, site.arn("ec2", f"security-group/{network.security_group_id}")],
        ),
        Statement(
            sid="DeleteInterface",
            actions=["ec2:DeleteNetworkInterface"],
            resources=[interfaces],
            conditions={"ArnEquals": {"ec2:Subnet": subnets}},
        ),
        Statement(
            sid="LendInterface",
            actions=["ec2:CreateNetworkInterfacePermission"],
            resources=[interfaces],
            conditions={
                "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
                "ArnEquals": {"ec2:Subnet": subnets},
            },
        ),
    ]

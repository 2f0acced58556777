"""Who may use each key: policies of the customer-managed keys, one function a domain.

Pure: a site in, statements out. Resources are named by pattern, never by reference, since they wait for the key.
Invariants: the account's IAM decides over roles and people (so a role that reads encrypted data needs `kms:Decrypt` in
a policy of its own); beyond that, services are let in for this account only, for what they do and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, get_args

from infra.policy import Statement
from infra.site import Site

Domain = Literal["data", "logs", "secrets", "volumes", "notifications"]
DOMAINS: tuple[Domain, ...] = get_args(Domain)

USE = ("kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey")
_PUBLISH = ("kms:Decrypt", "kms:GenerateDataKey*")
_FOR_AWS = {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def key_statements(domain: Domain, site: Site) -> list[Statement]:
    """The key policy of a domain."""
    return [_owner(site), *_STATEMENTS[domain](site)]


def _owner(site: Site) -> Statement:
    return Statement(sid="AccountByIam", actions=["kms:*"], accounts=[site.root_arn])


def _through(site: Site, *services: str) -> dict[str, dict[str, str | list[str]]]:
    """Conditions: called by a principal of this account, through one of the services."""
    hosts = [f"{service}.{site.region}.{site.dns_suffix}" for service in services]
    return {"StringEquals": {"kms:CallerAccount": site.account_id, "kms:ViaService": hosts}}


def _data(site: Site) -> list[Statement]:
    """Models, images, and the volumes of SageMaker's instances."""
    return [
        Statement(
            sid="ThroughStorageAndRegistry",
            actions=USE,
            accounts=["*"],
            conditions=_through(site, "s3", "ecr", "sagemaker"),
        ),
        Statement(
            sid="GrantsToRegistryAndSageMaker",
            actions=["kms:CreateGrant"],
            accounts=["*"],
            conditions={**_through(site, "ecr", "sagemaker"), **_FOR_AWS},
        ),
    ]


def _logs(site: Site) -> list[Statement]:
    """Log groups, CloudTrail's files, and logs that AWS delivers to S3."""
    trails = site.arn("cloudtrail", f"trail/{site.name}-*")
    return [
        Statement(
            sid="LogGroups",
            actions=["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
            services=[f"logs.{site.region}.{site.dns_suffix}"],
            conditions={
                # A pattern: the group waits for the key, so the key cannot refer to the group.
                "ArnLike": {"kms:EncryptionContext:aws:logs:arn": site.arn("logs", f"log-group:*{site.name}*")}
            },
        ),
        Statement(
            sid="CloudTrailEncrypts",
            actions=["kms:GenerateDataKey*"],
            services=["cloudtrail.amazonaws.com"],
            conditions={
                "ArnLike": {"aws:SourceArn": trails},
                "StringLike": {
                    "kms:EncryptionContext:aws:cloudtrail:arn": (
                        f"arn:{site.partition}:cloudtrail:*:{site.account_id}:trail/*"
                    )
                },
            },
        ),
        Statement(
            sid="CloudTrailLooks",
            actions=["kms:DescribeKey"],
            services=["cloudtrail.amazonaws.com"],
            conditions={"ArnLike": {"aws:SourceArn": trails}},
        ),
        Statement(
            sid="LogDelivery",
            actions=USE,
            services=["delivery.logs.amazonaws.com"],
            conditions={
                "StringEquals": {"aws:SourceAccount": site.account_id},
                "ArnLike": {"aws:SourceArn": site.arn("logs", "*")},
            },
        ),
    ]


def _secrets(site: Site) -> list[Statement]:
    """Kubernetes secrets and Secrets Manager. EKS takes a grant from who makes the cluster, whom IAM allows it."""
    return [
        Statement(
            sid="GrantsToCluster",
            actions=["kms:CreateGrant"],
            accounts=["*"],
            conditions={**_through(site, "eks"), **_FOR_AWS},
        ),
        Statement(
            sid="ThroughSecretsManager",
            actions=USE,
            accounts=["*"],
            conditions=_through(site, "secretsmanager"),
        ),
    ]


def _volumes(site: Site) -> list[Statement]:
    """Disks of nodes: EC2 for whoever launches them, Karpenter and Auto Scaling's own role among them.

    Karpenter's role has no rights on keys, so without these a node ends with Client.InternalError. Auto Scaling's role
    is named in a condition, not as a principal: KMS refuses principals that do not exist yet, as in a new account.
    """
    scaling = (
        f"arn:{site.partition}:iam::{site.account_id}:role/aws-service-role/autoscaling.amazonaws.com/"
        "AWSServiceRoleForAutoScaling"
    )
    by_scaling = {"StringEquals": {"kms:CallerAccount": site.account_id, "aws:PrincipalArn": scaling}}
    return [
        Statement(sid="ThroughEc2", actions=USE, accounts=["*"], conditions=_through(site, "ec2")),
        Statement(
            sid="GrantsToVolumes",
            actions=["kms:CreateGrant"],
            accounts=["*"],
            conditions={**_through(site, "ec2"), **_FOR_AWS},
        ),
        Statement(sid="AutoScaling", actions=USE, accounts=["*"], conditions=by_scaling),
        Statement(
            sid="AutoScalingGrants",
            actions=["kms:CreateGrant"],
            accounts=["*"],
            conditions={**by_scaling, **_FOR_AWS},
        ),
    ]


def _notifications(site: Site) -> list[Statement]:
    """Encrypted topics and queues: the services that publish to them need the key themselves.

    EventBridge names no source account to the key of a topic, and would be refused without a word (SNS developer guide,
    encrypted topics): what ties its statements to the account is the topic or queue, which the data is encrypted for.
    """
    rules = "events.amazonaws.com"
    return [
        Statement(
            sid="Publishers",
            actions=_PUBLISH,
            services=["cloudwatch.amazonaws.com", "budgets.amazonaws.com", "cloudtrail.amazonaws.com"],
            conditions={"StringEquals": {"aws:SourceAccount": site.account_id}},
        ),
        Statement(
            sid="RulesToTopics",
            actions=_PUBLISH,
            services=[rules],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:sns:topicArn": site.arn("sns", "*")}},
        ),
        Statement(
            sid="RulesToQueues",
            actions=_PUBLISH,
            services=[rules],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:sqs:arn": site.arn("sqs", "*")}},
        ),
    ]


_STATEMENTS: Mapping[Domain, Callable[[Site], list[Statement]]] = MappingProxyType(
    {
        "data": _data,
        "logs": _logs,
        "secrets": _secrets,
        "volumes": _volumes,
        "notifications": _notifications,
    }
)

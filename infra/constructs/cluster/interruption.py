"""Notices of nodes that are about to go, from EventBridge to the one queue that the cluster's Karpenter reads.

Knows no cluster. Invariant: each rule has the queue as its target, and the queue takes messages from these rules only;
a queue belongs to one cluster (two readers would eat each other's notices).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document
from infra.site import Site

# Suffix of the rule's name to (source, detail type).
EVENTS = {
    "health": ("aws.health", "AWS Health Event"),
    "spot-interruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state-change": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation-interruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptionProps:
    """What the queue belongs to."""

    site: Site
    cluster_name: str


class Interruption(Construct):
    """A queue, five rules and the policy between them."""

    def __init__(self, scope: Any, id: str, props: InterruptionProps) -> None:
        super().__init__(scope, id)
        site = props.site
        queue = aws.SqsQueue(
            self,
            "Queue",
            name=site.named("interruption"),
            # A notice is worth nothing once the node is gone: spot instances go two minutes after theirs.
            message_retention_seconds=300,
            # Ids of instances only; with a key of ours EventBridge would need to be let into the key as well.
            sqs_managed_sse_enabled=True,
        )
        rules = {
            suffix: aws.CloudwatchEventRule(
                self,
                f"{_pascal(suffix)}Rule",
                name=site.named(suffix),
                description=f"{detail_type} for Karpenter of {props.cluster_name}",
                event_pattern=json.dumps({"source": [source], "detail-type": [detail_type]}),
            )
            for suffix, (source, detail_type) in EVENTS.items()
        }
        policy = aws.SqsQueuePolicy(
            self,
            "Policy",
            queue_url=queue.url,
            policy=policy_document(
                [
                    Statement(
                        sid="Events",
                        services=["events.amazonaws.com"],
                        actions=["sqs:SendMessage"],
                        resources=[queue.arn],
                        conditions={
                            "StringEquals": {"aws:SourceAccount": site.account_id},
                            "ArnEquals": {"aws:SourceArn": [rule.arn for rule in rules.values()]},
                        },
                    ),
                    Statement(
                        sid="TlsOnly",
                        effect="Deny",
                        accounts=["*"],
                        actions=["sqs:*"],
                        resources=[queue.arn],
                        conditions={"Bool": {"aws:SecureTransport": "false"}},
                    ),
                ]
            ),
        )
        for suffix, rule in rules.items():
            aws.CloudwatchEventTarget(
                self,
                f"{_pascal(suffix)}Target",
                rule=rule.name,
                target_id="karpenter",
                arn=queue.arn,
                depends_on=[policy],
            )
        self.queue_name: str = queue.name
        self.queue_arn: str = queue.arn
        self.rule_names: tuple[str, ...] = tuple(rule.name for rule in rules.values())


def _pascal(suffix: str) -> str:
    return "".join(word.capitalize() for word in suffix.split("-"))

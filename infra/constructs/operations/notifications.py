"""The topic that alarms, budget and event rules publish to, and who is told.

Knows no alarms. Everything is encrypted with a key whose policy must let the publishing services in. A subscriber
confirms once, by the link in the first message; until then nothing is delivered to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document
from infra.site import Site

EVENTS = "events.amazonaws.com"
PUBLISHERS = ("cloudwatch.amazonaws.com", EVENTS, "budgets.amazonaws.com")
"""Services that publish; the key's policy must name each of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotificationsProps:
    """What the topic needs."""

    site: Site
    key_arn: str
    """Key of the notifications domain."""
    emails: tuple[str, ...]
    """Addresses."""
    webhooks: tuple[str, ...]
    """https:// addresses; they confirm by fetching the SubscribeURL that they are sent."""


class Notifications(Construct):
    """Topic, its policy, its subscriptions."""

    def __init__(self, scope: Any, id: str, props: NotificationsProps) -> None:
        super().__init__(scope, id)
        topic = aws.SnsTopic(
            self,
            "Topic",
            name=props.site.named("alarms"),
            display_name=props.site.name,
            kms_master_key_id=props.key_arn,
            signature_version=2 if props.webhooks else None,  # SHA-256, for webhooks that verify
        )
        policy = aws.SnsTopicPolicy(self, "TopicPolicy", arn=topic.arn, policy=_topic_policy(props.site, topic.arn))
        for number, (protocol, endpoint) in enumerate(
            [("email", email) for email in props.emails] + [("https", webhook) for webhook in props.webhooks]
        ):
            aws.SnsTopicSubscription(
                self, f"Subscriber{number}", topic_arn=topic.arn, protocol=protocol, endpoint=endpoint
            )
        self.topic_arn: str = topic.arn
        """For alarms and rules."""
        self.budget_topic_arn: str = policy.arn
        """The same ARN behind the policy: AWS Budgets refuses a topic that it may not publish to yet."""


def _topic_policy(site: Site, topic_arn: str) -> str:
    account: Mapping[str, str] = {"aws:SourceAccount": site.account_id}
    return policy_document(
        [
            Statement(
                sid="ServicesOfThisAccountPublish",
                actions=["sns:Publish"],
                resources=[topic_arn],
                services=[service for service in PUBLISHERS if service != EVENTS],
                conditions={"StringEquals": account},
            ),
            # EventBridge fills in no condition keys when it publishes to a topic, so a condition would shut it out; the
            # key's policy binds it to this account (EventBridge user guide, permissions for SNS).
            Statement(sid="RulesPublish", actions=["sns:Publish"], resources=[topic_arn], services=[EVENTS]),
            Statement(
                sid="OwnerManages",
                actions=[
                    "sns:GetTopicAttributes",
                    "sns:SetTopicAttributes",
                    "sns:ListSubscriptionsByTopic",
                    "sns:Subscribe",
                    "sns:DeleteTopic",
                ],
                resources=[topic_arn],
                accounts=[site.root_arn],
            ),
            Statement(
                sid="TransportIsEncrypted",
                effect="Deny",
                actions=["sns:Publish"],
                resources=[topic_arn],
                accounts=["*"],
                conditions={"Bool": {"aws:SecureTransport": "false"}},
            ),
        ]
    )

"""Topics that tell of an asynchronous endpoint's answers: one for those that came, one for those that failed.

Knows no subscribers; applications subscribe. SageMaker publishes with the endpoint's role, so no service is let in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointTopicsProps:
    """What the topics need."""

    site: Site
    """Names."""
    key_arn: str
    """Key of the notifications domain."""


class EndpointTopics(Construct):
    """Two encrypted topics that take messages by TLS only."""

    def __init__(self, scope: Any, id: str, props: EndpointTopicsProps) -> None:
        super().__init__(scope, id)
        self.answers_arn: str = self._topic("Answers", props)
        """A token."""
        self.failures_arn: str = self._topic("Failures", props)
        """A token."""

    def _topic(self, kind: str, props: EndpointTopicsProps) -> str:
        topic = aws.SnsTopic(
            self, kind, name=props.site.named(kind.lower()), kms_master_key_id=props.key_arn, signature_version=2
        )
        aws.SnsTopicPolicy(
            self,
            f"{kind}Policy",
            arn=topic.arn,
            policy=policy_document(
                [
                    Statement(
                        sid="AccountUses",
                        actions=["sns:Publish", "sns:Subscribe", "sns:GetTopicAttributes", "sns:SetTopicAttributes"],
                        accounts=[props.site.root_arn],
                        resources=[topic.arn],
                    ),
                    Statement(
                        sid="TransportIsEncrypted",
                        effect="Deny",
                        actions=["sns:Publish"],
                        accounts=["*"],
                        resources=[topic.arn],
                        conditions={"Bool": {"aws:SecureTransport": "false"}},
                    ),
                ]
            ),
        )
        return str(topic.arn)

"""Topics, their policies, subscriptions."""

from __future__ import annotations

import json
from typing import Any

from infra.rehearsal.provider.adapter import Made, call
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State

# Attributes of a topic and of a subscription, by the names that SNS has for them.
_TOPIC = {
    "DisplayName": "display_name",
    "KmsMasterKeyId": "kms_master_key_id",
    "Policy": "policy",
    "DeliveryPolicy": "delivery_policy",
    "SignatureVersion": "signature_version",
    "TracingConfig": "tracing_config",
    "FifoTopic": "fifo_topic",
    "ContentBasedDeduplication": "content_based_deduplication",
}
_FIXED = {"FifoTopic"}
_SUBSCRIPTION = {
    "RawMessageDelivery": "raw_message_delivery",
    "FilterPolicy": "filter_policy",
    "FilterPolicyScope": "filter_policy_scope",
    "DeliveryPolicy": "delivery_policy",
    "RedrivePolicy": "redrive_policy",
    "SubscriptionRoleArn": "subscription_role_arn",
}


def _attributes(state: State, names: dict[str, str]) -> dict[str, str]:
    """What is set, as texts. False is what SNS takes for not set."""
    values = {name: state.get(attribute) for name, attribute in names.items()}
    return {name: _text(value) for name, value in values.items() if value not in (None, False, "")}


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _change_topic(cloud: Cloud, prior: State, planned: State) -> None:
    before, after = _attributes(prior, _TOPIC), _attributes(planned, _TOPIC)
    for name in sorted((before.keys() | after.keys()) - _FIXED):
        if before.get(name) != after.get(name):
            parameters = {"TopicArn": planned["id"], "AttributeName": name, "AttributeValue": after.get(name, "")}
            cloud.call("sns", "set_topic_attributes", parameters)


def _change_subscription(cloud: Cloud, prior: State, planned: State) -> None:
    before, after = _attributes(prior, _SUBSCRIPTION), _attributes(planned, _SUBSCRIPTION)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            parameters = {
                "SubscriptionArn": planned["id"],
                "AttributeName": name,
                "AttributeValue": after.get(name, ""),
            }
            cloud.call("sns", "set_subscription_attributes", parameters)


def _owner_only(state: State) -> str:
    """The policy that a topic has when it has none of its own."""
    arn = str(state["arn"])
    owner = {"StringEquals": {"AWS:SourceOwner": arn.split(":")[4]}}
    actions = ["SNS:Publish", "SNS:Subscribe", "SNS:GetTopicAttributes", "SNS:SetTopicAttributes", "SNS:DeleteTopic"]
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": actions, "Resource": arn, "Condition": owner}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


_READ_TOPIC = call("get_topic_attributes", TopicArn="{id}")
_SET_POLICY = call("set_topic_attributes", TopicArn="{arn}", AttributeName="Policy", AttributeValue="{policy}")

RESOURCES = {
    "aws_sns_topic": Made(
        service="sns",
        create=call(
            "create_topic", Name="{name}", Attributes=lambda state: _attributes(state, _TOPIC), Tags="{tags_all}"
        ),
        id="TopicArn",
        read=_READ_TOPIC,
        found="Attributes",
        outputs={"arn": "{id}"},
        update=[_change_topic, call("tag_resource", ResourceArn="{id}", Tags="{tags_all}", when=["tags_all"])],
        delete=call("delete_topic", TopicArn="{id}"),
    ),
    "aws_sns_topic_policy": Made(
        service="sns",
        create=_SET_POLICY,
        id="{arn}",
        read=_READ_TOPIC,
        found="Attributes",
        update=[_SET_POLICY],
        delete=call("set_topic_attributes", TopicArn="{arn}", AttributeName="Policy", AttributeValue=_owner_only),
    ),
    "aws_sns_topic_subscription": Made(
        service="sns",
        create=call(
            "subscribe",
            TopicArn="{topic_arn}",
            Protocol="{protocol}",
            Endpoint="{endpoint}",
            Attributes=lambda state: _attributes(state, _SUBSCRIPTION),
            ReturnSubscriptionArn=True,
        ),
        id="SubscriptionArn",
        read=call("get_subscription_attributes", SubscriptionArn="{id}"),
        found="Attributes",
        outputs={"arn": "{id}", "owner_id": "Owner"},
        update=[_change_subscription],
        delete=call("unsubscribe", SubscriptionArn="{id}"),
    ),
}

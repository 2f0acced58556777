"""Queues and their policies."""

from __future__ import annotations

from typing import Any

from infra.rehearsal.provider.adapter import Made, call
from infra.rehearsal.provider.shapes import Exactly
from infra.rehearsal.provider.templates import State

# Attributes of the queue, by the names that SQS has for them.
_NAMES = {
    "DelaySeconds": "delay_seconds",
    "MaximumMessageSize": "max_message_size",
    "MessageRetentionPeriod": "message_retention_seconds",
    "ReceiveMessageWaitTimeSeconds": "receive_wait_time_seconds",
    "VisibilityTimeout": "visibility_timeout_seconds",
    "Policy": "policy",
    "RedrivePolicy": "redrive_policy",
    "RedriveAllowPolicy": "redrive_allow_policy",
    "KmsMasterKeyId": "kms_master_key_id",
    "KmsDataKeyReusePeriodSeconds": "kms_data_key_reuse_period_seconds",
    "SqsManagedSseEnabled": "sqs_managed_sse_enabled",
    "FifoQueue": "fifo_queue",
    "ContentBasedDeduplication": "content_based_deduplication",
}


def _attributes(state: State) -> dict[str, Any] | None:
    """What is set. SQS knows FifoQueue only as true."""
    values = {name: state.get(attribute) for name, attribute in _NAMES.items()}
    if not values["FifoQueue"]:
        values["FifoQueue"] = None
    return {name: value for name, value in values.items() if value is not None} or None


def _changeable(state: State) -> dict[str, Any] | None:
    """What can be set again; an attribute that is set no more keeps its value, as with the real provider."""
    return {name: value for name, value in (_attributes(state) or {}).items() if name != "FifoQueue"} or None


RESOURCES = {
    "aws_sqs_queue": Made(
        service="sqs",
        create=call("create_queue", QueueName="{name}", Attributes=_attributes, tags="{tags_all}"),
        id="QueueUrl",
        read=call("get_queue_attributes", QueueUrl="{id}", AttributeNames=["QueueArn"]),
        found="Attributes",
        outputs={"arn": "QueueArn", "url": "{id}"},
        update=[
            call("set_queue_attributes", QueueUrl="{id}", Attributes=_changeable, when=list(_NAMES.values())),
            call("tag_queue", QueueUrl="{id}", Tags="{tags_all}", when=["tags_all"]),
        ],
        delete=call("delete_queue", QueueUrl="{id}"),
    ),
    "aws_sqs_queue_policy": Made(
        service="sqs",
        create=call("set_queue_attributes", QueueUrl="{queue_url}", Attributes={"Policy": "{policy}"}),
        id="{queue_url}",
        read=call("get_queue_attributes", QueueUrl="{id}", AttributeNames=["Policy"]),
        found="Attributes.Policy",
        update=[call("set_queue_attributes", QueueUrl="{id}", Attributes={"Policy": "{policy}"})],
        # SQS has no operation that removes a policy: it is set to nothing.
        delete=call("set_queue_attributes", QueueUrl="{id}", Attributes=Exactly({"Policy": ""})),
    ),
}

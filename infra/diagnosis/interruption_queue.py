"""Karpenter's interruption queue: who may write to it, what waits in it, which rules lead to it.

Facts: `QueueFacts`. Knows no causes. Invariant: messages are counted and never received.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking

RULE_SUFFIXES = ("health", "spot-interruption", "rebalance", "state-change", "reservation-interruption")
"""Of the rules that lead to the queue (infra/constructs/cluster/interruption.py)."""

_ABSENT = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
_COUNTS = {
    "ApproximateNumberOfMessages": "waiting",
    "ApproximateNumberOfMessagesNotVisible": "read and not deleted",
    "MessageRetentionPeriod": "seconds kept",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueFacts:
    """The queue and what leads to it."""

    exists: bool
    waiting: int = 0
    in_flight: int = 0
    """Read and not deleted yet."""
    events_allowed: bool | None = None
    """Whether its policy lets EventBridge write; None: not seen."""
    broken_rules: tuple[str, ...] = ()
    """Rules that are missing, disabled or lead elsewhere."""


class QueueCollector:
    """Reads the queue and its rules."""

    source: str = "SQS"

    def wanted(self, context: Context) -> bool:
        """For the alarms about interruptions."""
        return context.aws is not None and context.alarm in ("interruption-queue-stuck", "spot-interruptions")

    def collect(self, context: Context) -> Evidence:
        """Attributes, policy, rules and their targets."""
        looking = Looking(self.source, context)
        name = context.named("interruption")
        found = looking.read("sqs", "get_queue_url", absent=_ABSENT, QueueName=name)
        if found is None:
            return looking.evidence()
        if not found:
            looking.found(f"queue {name}", "does not exist in this account and region")
            return looking.evidence(QueueFacts(exists=False))
        answer = looking.read(
            "sqs", "get_queue_attributes", absent=_ABSENT, QueueUrl=found["QueueUrl"], AttributeNames=["All"]
        )
        if not answer:
            return looking.evidence()
        attributes = answer.get("Attributes", {})
        looking.found(
            f"queue {name}", ", ".join(f"{attributes.get(key, '?')} {words}" for key, words in _COUNTS.items())
        )
        allowed = _lets_events_in(attributes.get("Policy"))
        looking.found("queue's policy", f"{'lets' if allowed else 'does not let'} EventBridge write")
        return looking.evidence(
            QueueFacts(
                exists=True,
                waiting=int(attributes.get("ApproximateNumberOfMessages", 0)),
                in_flight=int(attributes.get("ApproximateNumberOfMessagesNotVisible", 0)),
                events_allowed=allowed,
                broken_rules=_broken_rules(looking, context, attributes.get("QueueArn", "")),
            )
        )


def _lets_events_in(policy: str | None) -> bool:
    statements = json.loads(policy)["Statement"] if policy else []
    allowing = [one for one in statements if one.get("Effect") == "Allow"]
    return any("events.amazonaws.com" in json.dumps(one.get("Principal", "")) for one in allowing)


def _broken_rules(looking: Looking, context: Context, queue_arn: str) -> tuple[str, ...]:
    broken: list[str] = []
    for suffix in RULE_SUFFIXES:
        name = context.named(suffix)
        rule = looking.read("events", "describe_rule", absent=("ResourceNotFoundException",), Name=name)
        if rule is None:
            break  # the same reason five times says no more than once
        targets = (
            looking.read("events", "list_targets_by_rule", absent=("ResourceNotFoundException",), Rule=name)
            if rule
            else {}
        )
        if targets is None:
            break
        state = str(rule.get("State", "missing")).lower()
        leads = any(target["Arn"] == queue_arn for target in targets.get("Targets", []))
        looking.found(f"rule {name}", f"{state}, {'leads' if leads else 'does not lead'} to the queue")
        if state != "enabled" or not leads:
            broken.append(name)
    return tuple(broken)

"""Autoscaling of the endpoint: its limits, whether it is suspended, what it did last and what refused it.

Facts: `ScalingFacts`. Knows no causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.diagnosis.evidence import Context, Evidence
from infra.diagnosis.looking import Looking, utc

_ALARMS = ("queue-growing", "async-backlog", "endpoint-5xx", "model-latency-p99", "e2e-latency-p99")
_VARIANT, _DIMENSION = "AllTraffic", "sagemaker:variant:DesiredInstanceCount"


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """One thing that autoscaling did or tried."""

    when: datetime
    status: str
    """"Successful", "Failed", "InProgress", "Pending", "Unfulfilled", "Overridden"."""
    text: str
    """Description, and what refused it."""

    @property
    def shrinks(self) -> bool:
        """Whether it took instances away."""
        return "scale in" in self.text or "scale-in" in self.text or "AlarmLow" in self.text


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingFacts:
    """Autoscaling of one endpoint."""

    registered: bool
    """Whether autoscaling acts on the endpoint at all."""
    fewest: int = 0
    most: int = 0
    suspended: bool = False
    """Whether scaling out is suspended."""
    activities: tuple[Activity, ...] = ()
    """Of the time looked at, newest first; empty where they could not be seen, too."""
    wake_state: str | None = None
    """State of the alarm that starts the first instance; None: there is none, or it was not seen."""


class ScalingCollector:
    """Reads the scalable target and its activities."""

    source: str = "Application Auto Scaling"

    def wanted(self, context: Context) -> bool:
        """Where the page asks whether capacity comes."""
        return context.aws is not None and context.stack != "large" and context.alarm in _ALARMS

    def collect(self, context: Context) -> Evidence:
        """Limits, suspension, activities."""
        looking = Looking(self.source, context)
        resource = f"endpoint/{context.named('endpoint')}/variant/{_VARIANT}"
        answer = looking.read(
            "application-autoscaling", "describe_scalable_targets", ServiceNamespace="sagemaker",
            ResourceIds=[resource], ScalableDimension=_DIMENSION,
        )  # fmt: skip
        activities = _activities(looking, context, resource)
        wake = _wake(looking, context) if context.alarm == "async-backlog" else None
        if answer is None:
            return looking.evidence()
        if not answer.get("ScalableTargets"):
            looking.found(resource, "autoscaling does not act on it")
            return looking.evidence(ScalingFacts(registered=False, activities=activities, wake_state=wake))
        target = answer["ScalableTargets"][0]
        facts = ScalingFacts(
            registered=True,
            fewest=target["MinCapacity"],
            most=target["MaxCapacity"],
            suspended=bool((target.get("SuspendedState") or {}).get("DynamicScalingOutSuspended")),
            activities=activities,
            wake_state=wake,
        )
        suspended = "; scaling out is suspended" if facts.suspended else ""
        looking.found(resource, f"{facts.fewest} to {facts.most} instances{suspended}")
        return looking.evidence(facts)


def _activities(looking: Looking, context: Context, resource: str) -> tuple[Activity, ...]:
    answer = looking.read(
        "application-autoscaling", "describe_scaling_activities", ServiceNamespace="sagemaker", ResourceId=resource,
        ScalableDimension=_DIMENSION, MaxResults=20,
    )  # fmt: skip
    found = tuple(
        activity
        for one in (answer or {}).get("ScalingActivities", [])
        if (activity := _activity(one)).when >= context.since or activity.status in ("InProgress", "Pending")
    )
    for activity in found:
        looking.found(f"scaling activity, {activity.status}", activity.text, activity.when)
    if answer is not None and not found:
        looking.found("scaling activities", "none in the time looked at")
    return found


def _activity(one: dict[str, Any]) -> Activity:
    said = (one.get("Description", ""), one.get("Cause", ""), one.get("StatusMessage", ""))
    return Activity(when=utc(one["StartTime"]), status=one["StatusCode"], text=" ".join(filter(None, said)))


def _wake(looking: Looking, context: Context) -> str | None:
    """State of the alarm that starts the first instance of an asynchronous endpoint."""
    name = context.named("wake")
    answer = looking.read("cloudwatch", "describe_alarms", AlarmNames=[name])
    if answer is None:
        return None
    alarms = answer.get("MetricAlarms", [])
    looking.found(f"alarm {name}", alarms[0].get("StateValue", "") if alarms else "does not exist")
    return str(alarms[0].get("StateValue", "")) if alarms else None

"""Causes of alarms that SageMaker's own metrics raise: errors, the model's latency, the asynchronous backlog.

Pure. Invariant: a new version that is on its way is named before what its containers suffer.
"""

from __future__ import annotations

from datetime import timedelta

from infra.diagnosis.alarm_state import MetricFacts
from infra.diagnosis.endpoint_state import EndpointFacts
from infra.diagnosis.evidence import Evidence, Rule
from infra.diagnosis.ruling import (
    CAPACITY_RULES,
    OUT_OF_MEMORY,
    Found,
    at_maximum,
    lately,
    logged,
    new_version,
    none_of,
    restarting,
    seen,
    starting,
)
from infra.diagnosis.scaling import ScalingFacts

_FULL_CACHE = r"preempt|cache is full|out of (cache )?(slots|blocks)"
_KILLED = r"\bkilled\b|signal 9|exit code 137|OOMKilled|Worker died"
_LIMIT_US = 55e6  # SageMaker ends a response after 60 s
_AROUND = timedelta(minutes=15)


def _out_of_memory(evidence: Evidence) -> Found:
    return logged(evidence, OUT_OF_MEMORY)


def _killed(evidence: Evidence) -> Found:
    return logged(evidence, _KILLED)


def _failed(evidence: Evidence) -> Found:
    endpoint = evidence.of(EndpointFacts)
    if endpoint is None or endpoint.status not in ("Failed", "OutOfService", "UpdateRollbackFailed"):
        return ()
    return seen("SageMaker", f"endpoint {endpoint.name}", f"{endpoint.status}: {endpoint.failure}", endpoint.changed)


def _too_long(evidence: Evidence) -> Found:
    slowest = max(lately(evidence, "ModelLatency", "Maximum"), default=0.0)
    if slowest < _LIMIT_US:
        return ()
    return seen("CloudWatch", "ModelLatency, Maximum", f"{slowest / 1e6:.0f} s, and a response ends after 60 s")


def _shrinking(evidence: Evidence) -> Found:
    scaling, metrics = evidence.of(ScalingFacts), evidence.of(MetricFacts)
    if scaling is None or metrics is None:
        return ()
    return tuple(
        finding
        for one in scaling.activities
        if one.shrinks and one.status == "Successful" and abs(one.when - metrics.began) <= _AROUND
        for finding in seen("Application Auto Scaling", "activity", one.text[:300], one.when)
    )


def _asleep(evidence: Evidence) -> Found:
    """No instance, none wanted, although requests wait."""
    endpoint, scaling = evidence.of(EndpointFacts), evidence.of(ScalingFacts)
    if endpoint is None or endpoint.instances != 0 or endpoint.wanted != 0:
        return ()
    wake = "not seen" if scaling is None or scaling.wake_state is None else scaling.wake_state
    return seen("SageMaker", f"endpoint {endpoint.name}", f"no instance, and none is wanted; alarm for waking: {wake}")


def _full_cache(evidence: Evidence) -> Found:
    return logged(evidence, _FULL_CACHE)


_ERRORS: tuple[Rule, ...] = (
    Rule(cause="the endpoint failed", certainty="shown", shows=_failed),
    Rule(cause="the GPU has run out of memory", certainty="shown", shows=_out_of_memory),
    Rule(cause="the container was killed", certainty="shown", shows=none_of(_killed, _out_of_memory)),
    Rule(
        cause="the engine ends again and again", certainty="shown", shows=none_of(restarting, _out_of_memory, _killed)
    ),
    Rule(cause="the new version", certainty="fits", shows=none_of(new_version, _failed)),
    Rule(
        cause="answers longer than 60 s",
        certainty="fits",
        shows=none_of(_too_long, _failed, _out_of_memory, _killed, restarting),
    ),
    Rule(
        cause="instances go while they serve",
        certainty="fits",
        shows=none_of(_shrinking, _failed, _out_of_memory, _killed, restarting),
    ),
)

_MODEL_LATENCY: tuple[Rule, ...] = (
    Rule(cause="the engine ends again and again", certainty="shown", shows=restarting),
    Rule(cause="the new version", certainty="fits", shows=none_of(new_version, restarting)),
    Rule(cause="the cache is full", certainty="shown", shows=_full_cache),
    *CAPACITY_RULES,
    Rule(cause="autoscaling is at its maximum", certainty="fits", shows=none_of(at_maximum, new_version, _full_cache)),
    Rule(cause="instances are starting", certainty="fits", shows=none_of(starting, new_version)),
)

_BACKLOG: tuple[Rule, ...] = (
    Rule(cause="the endpoint failed", certainty="shown", shows=_failed),
    *CAPACITY_RULES,
    Rule(cause="the GPU has run out of memory", certainty="shown", shows=_out_of_memory),
    Rule(cause="the engine ends again and again", certainty="shown", shows=none_of(restarting, _out_of_memory)),
    Rule(cause="the first instance was not started", certainty="shown",
         shows=none_of(_asleep, *(rule.shows for rule in CAPACITY_RULES))),
    Rule(cause="instances are starting", certainty="shown", shows=starting),
    Rule(cause="autoscaling is at its maximum", certainty="fits",
         shows=none_of(at_maximum, _out_of_memory, restarting)),
)  # fmt: skip

ENDPOINT_RULES: dict[str, tuple[Rule, ...]] = {
    "endpoint-5xx": _ERRORS,
    "model-latency-p99": _MODEL_LATENCY,
    "async-backlog": _BACKLOG,
}
"""By alarm."""

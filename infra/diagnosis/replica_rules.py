"""Causes of full GPU memory and of silence: what is wrong with a replica itself.

Pure. Invariant: memory is judged by its course, silence by what answers.
"""

from __future__ import annotations

from itertools import pairwise

from infra.diagnosis.alarm_state import MetricFacts
from infra.diagnosis.endpoint_logs import LogFacts
from infra.diagnosis.endpoint_state import EndpointFacts
from infra.diagnosis.evidence import Evidence, Rule
from infra.diagnosis.ruling import OUT_OF_MEMORY, Found, lately, logged, none_of, seen
from infra.diagnosis.server_readings import ServerFacts

_FLAT, _FEWEST_POINTS = 0.01, 6


def _out_of_memory(evidence: Evidence) -> Found:
    return logged(evidence, OUT_OF_MEMORY)


def _memory(evidence: Evidence) -> tuple[float, ...]:
    facts = evidence.of(MetricFacts)
    series = None if facts is None else facts.get("GPUMemoryUsedMB")
    values = () if series is None else tuple(value for _, value in series.points)
    return values if len(values) >= _FEWEST_POINTS else ()


def _spread(values: tuple[float, ...]) -> float:
    return (max(values) - min(values)) / max(values)


def _falls(values: tuple[float, ...]) -> bool:
    return any(after < before * (1 - _FLAT) for before, after in pairwise(values))


def _memory_said(values: tuple[float, ...]) -> Found:
    return seen(
        "CloudWatch", "GPUMemoryUsedMB", f"from {values[0]:.0f} to {values[-1]:.0f} MiB, highest {max(values):.0f}"
    )


def _leak(evidence: Evidence) -> Found:
    values = _memory(evidence)
    if not values or _falls(values) or _spread(values) <= _FLAT:
        return ()
    # A leak rises all the time; memory that is taken in one step is a request or a cache.
    rises = sum(after > before for before, after in pairwise(values))
    return _memory_said(values) if rises >= len(values) // 2 else ()


def _steps(evidence: Evidence) -> Found:
    values = _memory(evidence)
    if not values or _spread(values) <= _FLAT or _leak(evidence):
        return ()
    return _memory_said(values)


def _full_from_the_start(evidence: Evidence) -> Found:
    values = _memory(evidence)
    return _memory_said(values) if values and _spread(values) <= _FLAT else ()


MEMORY_RULES: tuple[Rule, ...] = (
    Rule(
        cause="the GPU has run out of memory", certainty="shown", shows=lambda evidence: logged(evidence, OUT_OF_MEMORY)
    ),
    Rule(cause="a leak", certainty="fits", shows=_leak),
    Rule(cause="large requests", certainty="fits", shows=_steps),
    Rule(cause="full from the start", certainty="fits", shows=_full_from_the_start),
)


def _gone(evidence: Evidence) -> Found:
    endpoint = evidence.of(EndpointFacts)
    return (
        () if endpoint is None or endpoint.exists else seen("SageMaker", f"endpoint {endpoint.name}", "does not exist")
    )


def _failed(evidence: Evidence) -> Found:
    endpoint = evidence.of(EndpointFacts)
    if endpoint is None or endpoint.status not in ("Failed", "OutOfService", "UpdateRollbackFailed"):
        return ()
    return seen("SageMaker", f"endpoint {endpoint.name}", f"{endpoint.status}: {endpoint.failure}", endpoint.changed)


def _silent_container(evidence: Evidence) -> Found:
    logs, failed = evidence.of(LogFacts), _failed(evidence)
    if not failed or logs is None or logs.any_line or "ping" not in failed[0].value.lower():
        return ()
    return (*failed, *seen("CloudWatch Logs", logs.group, "no line at all"))


def _creating(evidence: Evidence) -> Found:
    endpoint = evidence.of(EndpointFacts)
    if endpoint is None or endpoint.status != "Creating":
        return ()
    return seen("SageMaker", f"endpoint {endpoint.name}", "Creating", endpoint.created)


def _dead(evidence: Evidence) -> Found:
    server = evidence.of(ServerFacts)
    return seen("server", server.url, server.fault) if server is not None and server.fault else ()


def _not_ready(evidence: Evidence) -> Found:
    server = evidence.of(ServerFacts)
    return seen("server", f"{server.url}/ready", server.reason) if server is not None and server.ready is False else ()


def _serves(evidence: Evidence) -> bool:
    server, endpoint = evidence.of(ServerFacts), evidence.of(EndpointFacts)
    if server is not None:
        return bool(server.ready)
    return endpoint is not None and endpoint.status == "InService" and bool(endpoint.instances)


def _silence(evidence: Evidence) -> bool:
    """Whether CloudWatch was asked for the reports and has none of these minutes."""
    facts = evidence.of(MetricFacts)
    return facts is not None and not lately(evidence, "QueueDepth")


def _dropped(evidence: Evidence) -> Found:
    server = evidence.of(ServerFacts)
    dropped = None if server is None else server.now("eagle3_emf_dropped_total")
    return seen("server", "CloudWatch records dropped", f"{dropped:g}") if dropped else ()


def _wrong_class(evidence: Evidence) -> Found:
    logs = evidence.of(LogFacts)
    if logs is None or not logs.exists or logs.takes_metrics:
        return ()
    return seen("CloudWatch Logs", logs.group, "is not of the standard class, so no metrics are taken out of it")


def _no_reports(evidence: Evidence) -> Found:
    if not _serves(evidence) or not _silence(evidence):
        return ()
    return seen("CloudWatch", "QueueDepth", "no value although a replica serves")


SILENCE_RULES: tuple[Rule, ...] = (
    Rule(cause="the endpoint is gone", certainty="shown", shows=_gone),
    Rule(cause="the container ends before its first line", certainty="shown", shows=_silent_container),
    Rule(cause="the endpoint failed", certainty="shown", shows=none_of(_failed, _silent_container)),
    Rule(cause="the first deployment is under way", certainty="shown", shows=_creating),
    Rule(cause="the server does not answer", certainty="shown", shows=_dead),
    Rule(cause="the engine is not ready", certainty="shown", shows=_not_ready),
    Rule(cause="reports are dropped", certainty="shown", shows=none_of(_dropped, _not_ready)),
    Rule(cause="the log group takes no metrics", certainty="shown", shows=_wrong_class),
    Rule(cause="reports are switched off", certainty="fits", shows=none_of(_no_reports, _dropped, _wrong_class)),
)

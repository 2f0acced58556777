"""Causes of a queue that grows and of late answers.

Pure. Invariant: what an overload looks like is no cause while the engine itself is at fault; of the explanations of
late answers the first that fits is given, since each of them makes the next ones true as well.
"""

from __future__ import annotations

from infra.diagnosis.acceptance_rules import acceptance_line, hardly_drafts, low_tau
from infra.diagnosis.evidence import Evidence, Rule
from infra.diagnosis.ruling import (
    CAPACITY_RULES,
    Found,
    Shows,
    at_maximum,
    change_of,
    hindered,
    new_version,
    none_of,
    restarting,
    seen,
    stalled,
    starting,
)
from infra.diagnosis.server_readings import ServerFacts
from infra.settings.alarms import AlarmSettings

_LINE = AlarmSettings()
_ROSE, _FELL = 1.3, 0.8


def _more_than_capacity(evidence: Evidence) -> Found:
    """A server whose queue stays although tokens come."""
    server = evidence.of(ServerFacts)
    refused = None if server is None else server.grew("eagle3_requests_rejected_total", "queue_full")
    if server is None or server.ready is False or not (server.waiting or refused):
        return ()
    full = f", {refused:g} refused meanwhile for a full queue" if refused else ""
    return seen("server", "requests waiting", f"{server.waiting or 0:g} although tokens come{full}")


def _queue(shows: Shows) -> Shows:
    """What an overload looks like, unless the engine is at fault."""
    return none_of(shows, stalled, restarting)


QUEUE_RULES: tuple[Rule, ...] = (
    Rule(cause="the engine is stalled", certainty="shown", shows=stalled),
    Rule(cause="the engine ends again and again", certainty="shown", shows=none_of(restarting, stalled)),
    *(Rule(cause=one.cause, certainty=one.certainty, shows=_queue(one.shows)) for one in CAPACITY_RULES),
    Rule(cause="autoscaling is at its maximum", certainty="shown", shows=_queue(at_maximum)),
    Rule(cause="instances are starting", certainty="shown", shows=_queue(starting)),
    Rule(
        cause="more requests than this server can do",
        certainty="fits",
        shows=_queue(none_of(_more_than_capacity, at_maximum, starting, hindered)),
    ),
)


def _waits(evidence: Evidence) -> Found:
    server, change = evidence.of(ServerFacts), change_of(evidence, "QueueDepth")
    if server is not None and server.waiting:
        return seen("server", "requests waiting", f"{server.waiting:g} at both readings")
    if change is not None and change.after >= 1 and change.rose(_ROSE):
        return seen("CloudWatch", "QueueDepth", change.said())
    return ()


def _tau_fell(evidence: Evidence) -> Found:
    change, low, server = change_of(evidence, "AcceptanceRate"), low_tau(evidence), evidence.of(ServerFacts)
    if change is not None and change.fell(_FELL):
        return seen("CloudWatch", "AcceptanceRate", change.said())
    if server is not None and (not server.grew("eagle3_drafted_cycles_total") or hardly_drafts(evidence)):
        return ()  # no cycle to judge by, or too few to make answers late
    return () if low is None else seen("acceptance", "tau", f"{low[0]:.2f}, below {acceptance_line(evidence):g}")


def _no_speculation(evidence: Evidence) -> Found:
    server = evidence.of(ServerFacts)
    if server is None or not server.grew("eagle3_output_tokens_total") or server.grew("eagle3_drafted_cycles_total"):
        return ()
    return seen("server", "tokens without a drafted cycle", f"{server.grew('eagle3_output_tokens_total'):g}")


def _verification(evidence: Evidence) -> Found:
    change = change_of(evidence, "VerifyLatencyMs")
    return seen("CloudWatch", "VerifyLatencyMs", change.said()) if change is not None and change.rose(_ROSE) else ()


def _prefill(evidence: Evidence) -> Found:
    change = change_of(evidence, "TimeToFirstTokenMs")
    if change is not None and change.rose(_ROSE):
        return seen("CloudWatch", "TimeToFirstTokenMs", change.said())
    first, whole = _mean(evidence, "eagle3_time_to_first_token_ms"), _mean(evidence, "eagle3_e2e_latency_ms")
    if first is None or whole is None or whole <= _LINE.e2e_p99_ms or first < whole / 2:
        return ()
    return seen("server", "time to first token", f"{first:.0f} of {whole:.0f} ms on average")


def _long_answers(evidence: Evidence) -> Found:
    change = change_of(evidence, "E2ELatencyMs", "p99")
    if change is not None and change.rose(_ROSE):
        return seen("CloudWatch", "E2ELatencyMs p99", change.said())
    whole, tokens = _mean(evidence, "eagle3_e2e_latency_ms"), _mean(evidence, "eagle3_request_output_tokens")
    if whole is None or tokens is None or whole <= _LINE.e2e_p99_ms:
        return ()
    return seen("server", "answers", f"{tokens:.0f} tokens and {whole:.0f} ms on average")


def _mean(evidence: Evidence, histogram: str) -> float | None:
    """Mean of a histogram of the server over the requests that ended between its readings; None without any."""
    server = evidence.of(ServerFacts)
    if server is None or not server.first:
        return None
    total, count = server.grew(f"{histogram}_sum"), server.grew(f"{histogram}_count")
    return total / count if total is not None and count else None


_FAULTS: tuple[Shows, ...] = (stalled, restarting, new_version)
LATENCY_RULES: tuple[Rule, ...] = (
    Rule(cause="the engine is stalled", certainty="shown", shows=stalled),
    Rule(cause="the engine ends again and again", certainty="shown", shows=none_of(restarting, stalled)),
    Rule(cause="the new version", certainty="fits", shows=none_of(new_version, stalled, restarting)),
    Rule(cause="requests wait", certainty="fits", shows=none_of(_waits, *_FAULTS)),
    Rule(cause="tau fell", certainty="fits", shows=none_of(_tau_fell, *_FAULTS, _waits)),
    Rule(cause="speculation is off", certainty="fits", shows=none_of(_no_speculation, *_FAULTS, _waits)),
    Rule(
        cause="larger batches or longer contexts",
        certainty="fits",
        shows=none_of(_verification, *_FAULTS, _waits, _tau_fell, _no_speculation),
    ),
    Rule(cause="long prompts", certainty="fits",
         shows=none_of(_prefill, *_FAULTS, _waits, _tau_fell, _no_speculation, _verification)),
    Rule(cause="longer answers", certainty="fits",
         shows=none_of(_long_answers, *_FAULTS, _waits, _tau_fell, _no_speculation, _verification, _prefill)),
)  # fmt: skip

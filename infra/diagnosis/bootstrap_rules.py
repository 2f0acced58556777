"""Causes of a bootstrap that failed, out of its build's log and of who is let into the cluster.

Pure. Invariant: the log names one cause, the first of the table that is found in it; what follows in a log is
mostly its consequence.
"""

from __future__ import annotations

import re

from infra.diagnosis.builds import BuildFacts
from infra.diagnosis.cluster_wiring import WiringFacts
from infra.diagnosis.evidence import Evidence, Rule
from infra.diagnosis.ruling import Found, Shows, none_of, seen

_LOG: tuple[tuple[str, str], ...] = (
    ("a Helm release is stuck", r"another operation .* in progress"),
    ("something was not mirrored", r"manifest unknown|name unknown|repository .* (does )?not (exist|found)|NoSuchKey|"
     r"Not Found.*(head|get)-?object|HeadObject operation: Not Found|\(404\)"),
    ("what was mirrored is not what is pinned", r"checksum did NOT match|computed checksum"),
    ("the build's role is not let in", r"Unauthorized|must be logged in|is forbidden: User|AccessDenied"),
    ("the cluster cannot be reached", r"i/o timeout|connection refused|no such host|dial tcp|TLS handshake timeout"),
    ("pods did not become ready", r"context deadline exceeded|timed out waiting|client rate limiter"),
)  # fmt: skip
"""Cause to what the build's log says; the first that is found."""


def _log_cause(evidence: Evidence) -> tuple[str, str] | None:
    build = evidence.of(BuildFacts)
    if build is None or build.status in ("", "SUCCEEDED", "IN_PROGRESS", "STOPPED"):
        return None
    lines = (*(build.log or ()), build.said)
    for cause, pattern in _LOG:
        line = next((one for one in reversed(lines) if re.search(pattern, one, re.IGNORECASE)), None)
        if line is not None:
            return cause, line
    return None


def _in_log(cause: str) -> Shows:
    def shows(evidence: Evidence) -> Found:
        found = _log_cause(evidence)
        build = evidence.of(BuildFacts)
        if found is None or found[0] != cause or build is None:
            return ()
        return seen("CodeBuild", "log line", found[1][:200], build.began)

    return shows


def _ended_as(*statuses: str) -> Shows:
    def shows(evidence: Evidence) -> Found:
        build = evidence.of(BuildFacts)
        if build is None or build.status not in statuses:
            return ()
        return seen("CodeBuild", "newest build", build.status, build.began)

    return shows


def _no_entry(evidence: Evidence) -> Found:
    wiring, build = evidence.of(WiringFacts), evidence.of(BuildFacts)
    if wiring is None or wiring.build_let_in is not False or (build is not None and build.status == "SUCCEEDED"):
        return ()
    return seen("EKS", "access entry of the build's role", "missing")


_TIMED_OUT, _STOPPED = _ended_as("TIMED_OUT"), _ended_as("STOPPED")
BOOTSTRAP_RULES: tuple[Rule, ...] = (
    Rule(cause="the build's role is not let in", certainty="shown", shows=_no_entry),
    *(Rule(cause=cause, certainty="shown", shows=none_of(_in_log(cause), _no_entry)) for cause, _ in _LOG),
    Rule(cause="the build was stopped", certainty="shown", shows=_STOPPED),
    Rule(cause="the build took too long", certainty="shown",
         shows=none_of(_TIMED_OUT, _no_entry, *(_in_log(cause) for cause, _ in _LOG))),
)  # fmt: skip

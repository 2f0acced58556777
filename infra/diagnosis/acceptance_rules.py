"""Causes of low acceptance, and what tau is.

Pure. Tau is that of drafted cycles throughout, as the alarm's. Invariant: acceptance is counted at the server where
there is one, else it is CloudWatch's of the alarm's minutes; while tau is above the line nothing is a cause.
"""

from __future__ import annotations

from collections.abc import Callable

from infra.diagnosis.alarm_state import AlarmFacts
from infra.diagnosis.evidence import Evidence, Rule
from infra.diagnosis.ruling import Found, change_of, lately, new_version, none_of, seen
from infra.diagnosis.server_readings import ServerFacts
from infra.settings.alarms import AlarmSettings

_LINE = AlarmSettings().acceptance_rate
_NOTHING_ACCEPTED, _SOMETHING_ACCEPTED = 0.05, 0.2
_DEEPER_PAYS = 0.25
_DEEPEST = 32
_FEWEST_CYCLES = 20
_DRAFTED, _DRAFTED_TOKENS = "eagle3_drafted_cycles_total", "eagle3_drafted_cycle_tokens_total"
# The native engine drafts only where it pays: what is left below this share of cycles are its tries.
_FEW_DRAFTED = 0.25


def _counted(server: ServerFacts | None) -> Callable[[str, str], float] | None:
    """How to read the server's counters of drafted cycles: between its readings, or since it started where those are
    too few to say anything; None if it has not had enough cycles at all, or was not seen."""
    if server is None or not server.second:
        return None
    if (server.grew(_DRAFTED) or 0.0) >= _FEWEST_CYCLES:
        return lambda name, label: server.grew(name, label) or 0.0
    if (server.now(_DRAFTED) or 0.0) >= _FEWEST_CYCLES:
        return lambda name, label: server.now(name, label) or 0.0
    return None


def _tau(evidence: Evidence) -> float | None:
    """Tokens a drafted cycle, of the server if it was seen, else the mean in CloudWatch; None without either."""
    server = evidence.of(ServerFacts)
    if server is not None and server.second:
        count = _counted(server)
        return None if count is None else count(_DRAFTED_TOKENS, "") / count(_DRAFTED, "")
    values = lately(evidence, "AcceptanceRate")
    return sum(values) / len(values) if values else None


def _by_depth(evidence: Evidence) -> dict[int, float] | None:
    """Share of drafted cycles that accept at each depth; a depth at which nothing ever was is left out."""
    server = evidence.of(ServerFacts)
    if server is not None and server.second:
        count, name = _counted(server), "eagle3_accepted_tokens_total"
        if count is None:
            return None
        depths = [label for label in server.labels(name) if label.isdigit()]
        return {int(depth): count(name, depth) / count(_DRAFTED, "") for depth in depths}
    if not lately(evidence, "AcceptanceRate"):
        return None
    found = {depth: lately(evidence, f"AcceptanceByDepth{depth}") for depth in range(1, _DEEPEST + 1)}
    return {depth: sum(values) / len(values) for depth, values in found.items() if values}


def acceptance_line(evidence: Evidence) -> float:
    """Tau below which the alarm is on."""
    alarm = evidence.of(AlarmFacts)
    line = None if alarm is None else alarm.threshold
    # The alarm looked at may be another one, whose line says nothing about tau.
    return line if line is not None and 1 < line <= 3 else _LINE


def low_tau(evidence: Evidence) -> tuple[float, float, float] | None:
    """Tau, acceptance at the first depth and at the second; None while tau is above the line, or unknown."""
    tau, depths = _tau(evidence), _by_depth(evidence)
    if tau is None or tau >= acceptance_line(evidence):
        return None
    # Without acceptance by depth, all that was accepted was accepted at the first.
    first = depths.get(1, 0.0) if depths else tau - 1
    return tau, first, (depths or {}).get(2, 0.0)


def hardly_drafts(evidence: Evidence) -> Found:
    """Tau is low, and the engine drafts in few cycles: it has found itself that drafting does not pay."""
    server, low = evidence.of(ServerFacts), low_tau(evidence)
    cycles = None if server is None else server.grew("eagle3_cycles_total")
    drafted = None if server is None else server.grew(_DRAFTED)
    if low is None or not cycles or drafted is None or drafted >= _FEW_DRAFTED * cycles:
        return ()
    # A draft that is never right is none to wait with.
    if low[1] < _NOTHING_ACCEPTED:
        return ()
    return seen("acceptance", "cycles that draft", f"{drafted / cycles:.0%}, of which {low[1]:.0%} accept at depth 1")


def _another_target(evidence: Evidence) -> Found:
    low = low_tau(evidence)
    if low is None or low[1] >= _NOTHING_ACCEPTED:
        return ()
    return seen("acceptance", "drafted cycles that accept at depth 1", f"{low[1]:.1%}, tau {low[0]:.2f}")


def _at_deployment(evidence: Evidence) -> Found:
    low = low_tau(evidence)
    return () if low is None else new_version(evidence)


def _too_deep(evidence: Evidence) -> Found:
    low = low_tau(evidence)
    if low is None or low[1] < _SOMETHING_ACCEPTED or low[2] >= _DEEPER_PAYS * low[1]:
        return ()
    return seen("acceptance", "drafted cycles that accept", f"{low[1]:.1%} at depth 1, {low[2]:.1%} at depth 2")


def _other_requests(evidence: Evidence) -> Found:
    low = low_tau(evidence)
    if low is None:
        return ()
    change = change_of(evidence, "AcceptanceRate")
    fell = f"; {change.said()}" if change is not None else ""
    return seen("acceptance", "tau", f"{low[0]:.2f}, depth 1 accepts {low[1]:.1%}{fell}")


ACCEPTANCE_RULES: tuple[Rule, ...] = (
    Rule(cause="the draft is of another target", certainty="shown", shows=_another_target),
    Rule(
        cause="drafting does not pay at this load",
        certainty="fits",
        shows=none_of(hardly_drafts, _another_target, _at_deployment),
    ),
    Rule(
        cause="the new version's draft",
        certainty="fits",
        shows=none_of(_at_deployment, _another_target, hardly_drafts),
    ),
    Rule(
        cause="the tree is deeper than it pays",
        certainty="fits",
        shows=none_of(_too_deep, _another_target, _at_deployment, hardly_drafts),
    ),
    Rule(
        cause="requests unlike the draft's training",
        certainty="fits",
        shows=none_of(_other_requests, _another_target, _at_deployment, _too_deep, hardly_drafts),
    ),
)

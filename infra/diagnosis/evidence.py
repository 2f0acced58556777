"""What a diagnosis works with: findings, what could not be seen, facts of each source, and the causes that they show.

Knows no service and no alarm. A collector looks at one source and returns `Evidence`: findings for the reader, facts
for the rules (one frozen dataclass of its own per source), and `NotSeen` for whatever it could not look at; it never
raises for a fault of AWS, Kubernetes or HTTP. A rule is a pure function of the joined evidence that returns the
findings which show its cause, or none. Invariants: evidence is joined, never changed; facts are told apart by their
type, at most one of each; a rule names a cause that is a row of the alarm's page (docs/runbooks/ALARM.md, "Causes"),
and that row's "then" is the step that fits, so that no step is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

Facts = TypeVar("Facts")
StackName = Literal["small", "medium", "large"]
Certainty = Literal["shown", "fits"]
"""shown: the source says so itself, or it is counted; fits: what was seen is what this cause looks like."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at, and what was seen."""

    source: str
    """Where: "CloudWatch", "SageMaker", "server", "Kubernetes"."""
    what: str
    """What was looked at, such as "QueueDepth, Average of 60 s"."""
    value: str
    """What was seen, with its unit, in one line."""
    when: datetime | None = None
    """When it was so, with a time zone; None: at the time of looking."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NotSeen:
    """One thing that could not be looked at."""

    source: str
    """As in a finding, with what was to be read: "SageMaker describe_endpoint"."""
    reason: str
    """Why, in one line: a permission by its name, an address that does not answer, throttling after retries."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What one collector, or all of them, brought."""

    findings: tuple[Finding, ...] = ()
    """In the order in which they are to be read."""
    not_seen: tuple[NotSeen, ...] = ()
    """In the order in which it was tried."""
    facts: tuple[object, ...] = ()
    """Frozen dataclasses, at most one of a type; a source that was not seen has none."""

    def of(self, kind: type[Facts]) -> Facts | None:
        """The facts of one type; None if their source was not seen."""
        return next((facts for facts in self.facts if isinstance(facts, kind)), None)

    @staticmethod
    def joined(parts: Iterable[Evidence]) -> Evidence:
        """Everything, in the order of the parts."""
        parts = tuple(parts)
        facts = tuple(one for part in parts for one in part.facts)
        assert len({type(one) for one in facts}) == len(facts), "two collectors brought facts of one type"
        return Evidence(
            findings=tuple(one for part in parts for one in part.findings),
            not_seen=tuple(one for part in parts for one in part.not_seen),
            facts=facts,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterAccess:
    """How the cluster's API is to be reached."""

    kubeconfig: Path | None = None
    """None: what KUBECONFIG names, or ~/.kube/config."""
    context: str | None = None
    """None: the current one of the file."""
    namespace: str = "eagle3"
    """Where the server runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerAccess:
    """How one server is to be reached."""

    url: str
    """Scheme, host and port, without a path at its end."""
    key: str | None = field(default=None, repr=False)
    """Bearer key; None: sent without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What is to be diagnosed, and by which ways it can be looked at."""

    alarm: str
    """Name of an alarm of the catalogue, or "budget"."""
    site: str
    """Name of the stack with its prefix, such as "eagle3-dev-large"."""
    stack: StackName
    """small and medium have an endpoint, large has a cluster."""
    since: datetime
    """Beginning of the time looked at, with a time zone."""
    now: datetime
    """Its end."""
    aws: Any | None = None
    """An `infra.diagnosis.aws_reader.AwsReader`; None without credentials."""
    cluster: ClusterAccess | None = None
    """None: the cluster's API is not looked at."""
    server: ServerAccess | None = None
    """None: no server is looked at."""
    between_readings_s: float = 5.0
    """Seconds between two readings of a server's counters."""
    wait: Callable[[float], None] = lambda seconds: None
    """Waits that long; passed in, so that tests need no time."""

    def named(self, suffix: str) -> str:
        """Name of a resource of the stack."""
        return f"{self.site}-{suffix}"


class Collector(Protocol):
    """Looks at one source. Reads only."""

    source: str
    """Name in "could not be looked at", should the whole source be out of reach."""

    def wanted(self, context: Context) -> bool:
        """Whether the alarm's page asks for this source and the context has a way to it."""
        ...

    def collect(self, context: Context) -> Evidence:
        """What was seen; never raises for a fault of the source, which becomes `NotSeen`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One cause that an alarm can have, and what shows it."""

    cause: str
    """First cell of a row of the page's table of causes, word for word."""
    certainty: Certainty
    """Of the cause where `shows` returns anything."""
    shows: Callable[[Evidence], Sequence[Finding]]
    """The findings that show the cause; empty: not this one. Pure."""
    unless: frozenset[str] = frozenset()
    """Causes of which this one is only the effect: it is not named where one of them is found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A cause that the evidence shows."""

    name: str
    """As on the page."""
    certainty: Certainty
    because: tuple[Finding, ...]
    """At least one."""
    step: str
    """What to do: the "then" of its row on the page."""


def causes_of(rules: Sequence[Rule], evidence: Evidence, steps: dict[str, str]) -> tuple[Cause, ...]:
    """Causes that the evidence shows, the most probable first: those shown before those that fit, else in the rules'
    order. Rules of one name, which look at different sources, make one cause. `steps` are the page's rows by cause.
    """
    found: dict[str, Cause] = {}
    for rule in rules:
        because = tuple(rule.shows(evidence))
        if not because:
            continue
        before = found.get(rule.cause)
        found[rule.cause] = Cause(
            name=rule.cause,
            certainty="shown" if before is not None and before.certainty == "shown" else rule.certainty,
            because=because if before is None else (*before.because, *because),
            step=steps[rule.cause],
        )
    effects = {rule.cause for rule in rules if rule.unless & found.keys()}
    causes = [cause for cause in found.values() if cause.name not in effects]
    return tuple(sorted(causes, key=lambda cause: cause.certainty != "shown"))

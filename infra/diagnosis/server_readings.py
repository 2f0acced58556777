"""One server as it answers itself: alive, ready, and its counters twice, some seconds apart.

Facts: `ServerFacts`. Knows no causes. Sends GET alone. A server that does not answer is a fact, and what could not be
read from it is said as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

from infra.diagnosis.evidence import Context, Evidence, ServerAccess
from infra.diagnosis.looking import Looking

_TIMEOUT = httpx.Timeout(8.0, connect=4.0)
_ALARMS = (
    "e2e-latency-p99", "acceptance-rate-low", "queue-growing", "gpu-memory-high", "no-data", "endpoint-5xx",
    "load-balancer-5xx", "model-latency-p99", "async-backlog",
)  # fmt: skip
Reading = dict[tuple[str, str], float]
"""Samples by name and by the value of their one label ("" without)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerFacts:
    """One server."""

    url: str
    fault: str = ""
    """Why it does not answer; "" if it does."""
    ready: bool | None = None
    """Whether it says that it is; None: not seen."""
    reason: str = ""
    """Why it is not."""
    first: Reading = field(default_factory=dict)
    second: Reading = field(default_factory=dict)
    """Empty if its metrics could not be read."""
    between_s: float = 0.0
    """Seconds between the two."""

    def now(self, name: str, label: str = "") -> float | None:
        """A sample of the second reading; None if the server does not have it."""
        return self.second.get((name, label))

    def grew(self, name: str, label: str = "") -> float | None:
        """How much a counter grew between the readings; None without it. One that is new began at 0."""
        if (name, label) not in self.second:
            return None
        return self.second[name, label] - self.first.get((name, label), 0.0)

    def labels(self, name: str) -> tuple[str, ...]:
        """Label values under which the second reading has a sample."""
        return tuple(label for other, label in self.second if other == name)

    @property
    def waiting(self) -> float | None:
        """Requests that waited at both readings, at least."""
        both = [reading.get(("eagle3_queue_depth", "")) for reading in (self.first, self.second)]
        return None if None in both else min(value for value in both if value is not None)


class ServerCollector:
    """Reads /health, /ready and /metrics."""

    source: str = "server"

    def wanted(self, context: Context) -> bool:
        """Where a server was named and the alarm is about serving."""
        return context.server is not None and context.alarm in _ALARMS

    def collect(self, context: Context) -> Evidence:
        """Health, readiness, two readings."""
        looking = Looking(self.source, context)
        assert context.server is not None
        access = context.server
        headers = {} if access.key is None else {"Authorization": f"Bearer {access.key}"}
        with httpx.Client(base_url=access.url, headers=headers, timeout=_TIMEOUT) as client:
            fault = _alive(looking, client, access)
            if fault:
                for path in ("/ready", "/metrics"):
                    looking.missed(f"{access.url}{path}", fault)
                return looking.evidence(ServerFacts(url=access.url, fault=fault))
            ready, reason = _ready(looking, client, access)
            first = _reading(looking, client, access)
            second: Reading = {}
            if first is not None:
                context.wait(context.between_readings_s)
                second = _reading(looking, client, access) or {}
        facts = ServerFacts(
            url=access.url, ready=ready, reason=reason, first=first or {}, second=second,
            between_s=context.between_readings_s,
        )  # fmt: skip
        if second:
            _tell(looking, facts)
        return looking.evidence(facts)


def _alive(looking: Looking, client: httpx.Client, access: ServerAccess) -> str:
    try:
        answer = client.get("/health")
    except httpx.HTTPError as error:
        fault = f"does not answer: {str(error) or type(error).__name__}"
        looking.found(f"{access.url}/health", fault)
        return fault
    looking.found(f"{access.url}/health", f"HTTP {answer.status_code}")
    return ""


def _ready(looking: Looking, client: httpx.Client, access: ServerAccess) -> tuple[bool | None, str]:
    try:
        answer = client.get("/ready")
    except httpx.HTTPError as error:
        looking.missed(f"{access.url}/ready", f"does not answer: {str(error) or type(error).__name__}")
        return None, ""
    if answer.status_code not in (200, 503):
        looking.missed(f"{access.url}/ready", f"HTTP {answer.status_code}; is it a server of eagle3?")
        return None, ""
    reason = ""
    if answer.status_code == 503:
        try:
            reason = str(answer.json().get("reason", ""))
        except (ValueError, AttributeError):
            reason = answer.text[:200]
    looking.found(f"{access.url}/ready", "ready" if answer.status_code == 200 else f"not ready: {reason}")
    return answer.status_code == 200, reason


def _reading(looking: Looking, client: httpx.Client, access: ServerAccess) -> Reading | None:
    try:
        answer = client.get("/metrics")
    except httpx.HTTPError as error:
        looking.missed(f"{access.url}/metrics", f"does not answer: {str(error) or type(error).__name__}")
        return None
    if answer.status_code != 200:
        looking.missed(f"{access.url}/metrics", f"HTTP {answer.status_code}")
        return None
    try:
        families = list(text_string_to_metric_families(answer.text))
    except ValueError as error:
        looking.missed(f"{access.url}/metrics", f"is not Prometheus text: {error}")
        return None
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in families
        for sample in family.samples
        if len(sample.labels) <= 1 and not sample.name.endswith("_created")
    }


def _tell(looking: Looking, facts: ServerFacts) -> None:
    """The numbers that the pages ask for."""
    for name, words in (
        ("eagle3_queue_depth", "requests waiting"), ("eagle3_running", "requests in the engine"),
        ("eagle3_engine_restarts_total", "engine restarts"), ("eagle3_emf_dropped_total", "CloudWatch records dropped"),
        ("eagle3_gpu_memory_used_mb", "GPU memory, MiB"),
        ("eagle3_acceptance_rate", "acceptance length of the last interval"),
    ):  # fmt: skip
        value = facts.now(name)
        if value is not None:
            looking.found(words, f"{value:g}")
    for name, words in (
        ("eagle3_output_tokens_total", "tokens generated"), ("eagle3_cycles_total", "cycles"),
        ("eagle3_drafted_cycles_total", "cycles that drafted"),
        ("eagle3_prompt_tokens_total", "prompt tokens taken in"),
    ):  # fmt: skip
        grew = facts.grew(name)
        if grew is not None:
            looking.found(words, f"{facts.now(name):g}, {grew:g} of them in {facts.between_s:g} s")
    for reason in facts.labels("eagle3_requests_rejected_total"):
        looking.found(f"requests refused, {reason}", f"{facts.now('eagle3_requests_rejected_total', reason):g}")
    if facts.grew("eagle3_output_tokens_total") and not facts.grew("eagle3_drafted_cycles_total"):
        looking.found("speculation", "off: tokens came without a drafted cycle")

"""Every metric of the runtime: names, unit, kind, meaning, and when it is absent.

Knows no values. The registry exposes exactly these families, CloudWatch records carry exactly these names, and the
table of docs/metrics.md is `catalogue_table()`, so none of the three can drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram"]
Unit = Literal["Count", "Count/Second", "Milliseconds", "Megabytes", "Seconds", "None"]

PREFIX = "eagle3_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """One metric."""

    prometheus: str
    """Family name; samples of counters end in `_total`."""
    kind: Kind
    unit: Unit
    help: str
    cloudwatch: str | None = None
    """Name in CloudWatch; None if it is exported to Prometheus only."""
    labels: tuple[str, ...] = ()
    absent: str = "never"
    """When there is no sample."""


def _counter(name: str, help: str, *, labels: tuple[str, ...] = (), unit: Unit = "Count") -> Definition:
    absent = f"until the first of a {' and '.join(labels)}" if labels else "never"
    return Definition(prometheus=PREFIX + name, kind="counter", unit=unit, help=help, labels=labels, absent=absent)


_NO_CYCLE = "no cycle in the last interval"
_NO_DRAFTED_CYCLE = "no drafted cycle in the last interval"

CATALOGUE: tuple[Definition, ...] = (
    Definition(
        prometheus="eagle3_tokens_per_second", cloudwatch="TokensPerSecond", kind="gauge", unit="Count/Second",
        help="Output tokens per second of all requests together, over the last interval.",
        absent="before the first interval ended",
    ),
    Definition(
        prometheus="eagle3_acceptance_rate", cloudwatch="AcceptanceRate", kind="gauge", unit="None",
        help="Acceptance length: tokens emitted per drafted cycle over the last interval, the bonus token included.",
        absent=_NO_DRAFTED_CYCLE,
    ),
    Definition(
        prometheus="eagle3_acceptance_by_depth", cloudwatch="AcceptanceByDepth<N>", kind="gauge", unit="None",
        help="Share of the last interval's drafted cycles that accepted a node at this depth of the tree, 0 to 1.",
        labels=("depth",), absent=f"{_NO_DRAFTED_CYCLE}; depths at which nothing was ever accepted",
    ),
    Definition(
        prometheus="eagle3_draft_latency_ms", cloudwatch="DraftLatencyMs", kind="gauge", unit="Milliseconds",
        help="Time in the draft per cycle, mean of the last interval.", absent=f"{_NO_CYCLE}; engine reports no times",
    ),
    Definition(
        prometheus="eagle3_verify_latency_ms", cloudwatch="VerifyLatencyMs", kind="gauge", unit="Milliseconds",
        help="Time in the target's verification per cycle, mean of the last interval.",
        absent=f"{_NO_CYCLE}; engine reports no times",
    ),
    Definition(
        prometheus="eagle3_e2e_latency_ms", cloudwatch="E2ELatencyMs", kind="histogram", unit="Milliseconds",
        help="Time from the arrival of a request to its last token; queueing included, rejected requests excluded.",
        absent="CloudWatch: no request finished in the interval",
    ),
    Definition(
        prometheus="eagle3_time_to_first_token_ms", cloudwatch="TimeToFirstTokenMs", kind="histogram",
        unit="Milliseconds", help="Time from the arrival of a request to its first token; queueing included.",
        absent="CloudWatch: no request with a token finished in the interval",
    ),
    Definition(
        prometheus="eagle3_gpu_memory_used_mb", cloudwatch="GPUMemoryUsedMB", kind="gauge", unit="Megabytes",
        help="Memory in use on the GPUs of the engine, MiB.", absent="no GPU, or the engine does not know",
    ),
    Definition(
        prometheus="eagle3_queue_depth", cloudwatch="QueueDepth", kind="gauge", unit="Count",
        help="Requests that wait: in the server's queue, and inside the engine. Sent while loading too.",
    ),
    Definition(
        prometheus="eagle3_requests_rejected", cloudwatch="RejectedRequests", kind="counter", unit="Count",
        help="Requests refused before they reached the engine, by reason. CloudWatch: of the interval, in total "
        "(0 included) and by dimension Reason.",
        labels=("reason",), absent="Prometheus: until the first of a reason",
    ),
    Definition(
        prometheus="eagle3_running", kind="gauge", unit="Count", help="Requests that the server gave to the engine.",
    ),
    Definition(
        prometheus="eagle3_engine_ready", kind="gauge", unit="Count", help="1 while the engine is READY, else 0.",
    ),
    Definition(
        prometheus="eagle3_cache_tokens", kind="gauge", unit="Count", help="Token slots of the KV cache.",
    ),
    Definition(
        prometheus="eagle3_cache_tokens_used", kind="gauge", unit="Count",
        help="Token slots held by requests in flight; slots kept only for reuse are not counted.",
    ),
    _counter("requests", "Requests that ended, by outcome.", labels=("outcome",)),
    _counter("response_cache", "Look-ups in the cache of whole responses, by result.", labels=("result",)),
    _counter("output_tokens", "Tokens generated, those of unfinished answers included."),
    _counter("cycles", "Verification passes of the target, the prefill not counted."),
    _counter("cycle_tokens", "Tokens emitted by cycles; divide by eagle3_cycles_total for tau."),
    _counter("drafted_cycles", "Cycles that verified a node; the others were plain."),
    _counter(
        "drafted_cycle_tokens",
        "Tokens emitted by drafted cycles; divide by eagle3_drafted_cycles_total for the acceptance length.",
    ),
    _counter("drafted_nodes", "Tree nodes verified, roots not counted."),
    _counter("accepted_tokens", "Cycles that accepted a node at this depth of the tree.", labels=("depth",)),
    _counter("draft_seconds", "Seconds in the draft.", unit="Seconds"),
    _counter("verify_seconds", "Seconds in the target's verification.", unit="Seconds"),
    _counter("prompt_tokens", "Prompt tokens taken in."),
    _counter("reused_prompt_tokens", "Prompt tokens whose keys and values were found in the cache."),
    _counter("preemptions", "Requests set back because the cache was full."),
    _counter("engine_restarts", "Times that the engine was started again after a crash."),
    _counter("emf_dropped", "CloudWatch records that could not be delivered."),
    Definition(
        prometheus="eagle3_request_prompt_tokens", kind="histogram", unit="Count", help="Prompt tokens of a request.",
    ),
    Definition(
        prometheus="eagle3_request_output_tokens", kind="histogram", unit="Count", help="Output tokens of a request.",
    ),
)  # fmt: skip

BY_NAME = {definition.prometheus.removeprefix(PREFIX): definition for definition in CATALOGUE}


def catalogue_table() -> str:
    """The catalogue as a Markdown table."""
    rows = [
        "| Prometheus | CloudWatch | kind | unit | meaning | absent |",
        "|---|---|---|---|---|---|",
    ]
    for entry in CATALOGUE:
        labels = f"{{{', '.join(entry.labels)}}}" if entry.labels else ""
        name = entry.prometheus + ("_total" if entry.kind == "counter" else "")
        cloudwatch = f"`{entry.cloudwatch}`" if entry.cloudwatch else ""
        unit = "" if entry.unit == "None" else entry.unit
        rows.append(f"| `{name}{labels}` | {cloudwatch} | {entry.kind} | {unit} | {entry.help} | {entry.absent} |")
    return "\n".join(rows)

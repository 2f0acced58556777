"""What one system did at one concurrency: throughput and latencies from the records of its requests.

Knows no server. Speculative servers send several tokens in one chunk, so the gap between chunks is not the time of a
token. Two numbers are given: the *time per output token* of a request, its decode time divided by its tokens but one,
and the *chunk gap*, what a reader waits for the next piece of text. Failed requests count as errors and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantiles:
    """Median and 99th percentile, milliseconds."""

    p50: float
    p99: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelResult:
    """One system at one concurrency; a latency that no request had is None."""

    system: str
    concurrency: int
    requests: int
    """Requests answered completely."""
    errors: dict[str, int]
    """By kind."""
    elapsed_s: float
    """From the first request to the end of the last answer, the fading out of the load included; of all rounds."""
    prompt_tokens: int
    output_tokens: int
    tokens_per_s: float
    """Output tokens per second of all users together."""
    ttft_ms: Quantiles | None
    time_per_output_token_ms: Quantiles | None
    chunk_gap_ms: Quantiles | None
    e2e_ms: Quantiles | None

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def level_result(system: str, concurrency: int, records: Sequence[dict[str, Any]]) -> LevelResult:
    """Sum up what the users recorded in one round or several (`serve_worker.py` says what that is)."""
    answers = [answer for record in records for answer in record["answers"]]
    errors: Counter[str] = Counter()
    elapsed_s = 0.0
    for record in records:
        errors.update(record["errors"])
        if record["answers"]:
            elapsed_s += max(answer["end_s"] for answer in record["answers"])
            elapsed_s -= min(answer["start_s"] for answer in record["answers"])
    output_tokens = sum(answer["output_tokens"] for answer in answers)
    spoken = [answer for answer in answers if answer["chunk_s"]]
    return LevelResult(
        system=system,
        concurrency=concurrency,
        requests=len(answers),
        errors=dict(errors),
        elapsed_s=elapsed_s,
        prompt_tokens=sum(answer["prompt_tokens"] for answer in answers),
        output_tokens=output_tokens,
        tokens_per_s=output_tokens / elapsed_s if elapsed_s else 0.0,
        ttft_ms=_quantiles([answer["chunk_s"][0] - answer["start_s"] for answer in spoken]),
        time_per_output_token_ms=_quantiles(
            [
                (answer["chunk_s"][-1] - answer["chunk_s"][0]) / (answer["output_tokens"] - 1)
                for answer in spoken
                if answer["output_tokens"] > 1
            ]
        ),
        chunk_gap_ms=_quantiles([gap for answer in spoken for gap in np.diff(answer["chunk_s"])]),
        e2e_ms=_quantiles([answer["end_s"] - answer["start_s"] for answer in answers]),
    )


def _quantiles(seconds: list[float]) -> Quantiles | None:
    if not seconds:
        return None
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    return Quantiles(p50=round(float(p50), 3), p99=round(float(p99), 3))


def results_table(results: list[LevelResult]) -> str:
    """Markdown; latencies in milliseconds as median / 99th percentile."""
    rows = [
        "| users | system | tokens/s | first token | time per output token | chunk gap | whole answer | answers "
        "| errors |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        latencies = (result.ttft_ms, result.time_per_output_token_ms, result.chunk_gap_ms, result.e2e_ms)
        errors = ", ".join(f"{count} {kind}" for kind, count in sorted(result.errors.items())) or "0"
        cells = [
            str(result.concurrency),
            result.system,
            f"{result.tokens_per_s:.1f}",
            *(f"{value.p50:.0f} / {value.p99:.0f}" if value else "–" for value in latencies),  # noqa: RUF001
            str(result.requests),
            errors,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)

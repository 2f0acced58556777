"""Sums of a load test, from records with known times."""

from __future__ import annotations

import json

import pytest

from eagle3.bench.serve_result import LevelResult, level_result, results_table


def answer(start_s, chunk_s, end_s, tokens):
    """One record."""
    return {
        "start_s": start_s, "chunk_s": list(chunk_s), "end_s": end_s, "prompt_tokens": 5, "output_tokens": tokens,
    }  # fmt: skip


def test_several_tokens_in_a_chunk():
    """Nine tokens in three chunks: a gap is what the reader waits, a token's time is the decode time over eight."""
    result = level_result("a", 1, [{"answers": [answer(1.0, (1.1, 1.3, 1.5), 1.6, 9)], "errors": {}}])
    assert result.ttft_ms.p50 == pytest.approx(100)
    assert result.chunk_gap_ms.p50 == pytest.approx(200)
    assert result.time_per_output_token_ms.p50 == pytest.approx(50)
    assert result.e2e_ms.p50 == pytest.approx(600)


def test_throughput_counts_all_users():
    """Tokens of all answers over the time from the first request to the last end."""
    answers = [answer(0.5, (1.0,), 2.0, 30), answer(0.6, (1.0,), 2.5, 10)]
    result = level_result("a", 2, [{"answers": answers, "errors": {}}])
    assert result.elapsed_s == 2.0
    assert result.tokens_per_s == 20.0
    assert (result.requests, result.output_tokens, result.prompt_tokens) == (2, 40, 10)


def test_one_token_has_no_time_per_token():
    """An answer of one token has no decode time; it is left out, not 0."""
    result = level_result("a", 1, [{"answers": [answer(0.0, (0.1,), 0.1, 1)], "errors": {}}])
    assert result.time_per_output_token_ms is None
    assert result.chunk_gap_ms is None
    assert result.ttft_ms.p50 == pytest.approx(100)


def test_an_answer_without_text_has_no_first_token_time():
    """Tokens that make no text, such as an end at once, still count as tokens."""
    result = level_result("a", 1, [{"answers": [answer(0.0, (), 0.5, 1)], "errors": {}}])
    assert result.ttft_ms is None
    assert result.tokens_per_s == 2.0


def test_nothing_answered():
    """Only errors: no rate, no latency, no division by zero, and JSON without NaN."""
    result = level_result("a", 4, [{"answers": [], "errors": {"HTTP 503": 4}}])
    assert result.tokens_per_s == 0.0
    assert result.e2e_ms is None
    assert json.loads(json.dumps(result.as_json(), allow_nan=False))["errors"] == {"HTTP 503": 4}
    assert "| 4 HTTP 503 |" in results_table([result])


def test_percentiles():
    """The 99th percentile of 1 to 101 tenths of a second is the hundredth."""
    answers = [answer(0.0, (0.0,), number / 10, 2) for number in range(1, 102)]
    result = level_result("a", 1, [{"answers": answers, "errors": {}}])
    assert result.e2e_ms.p50 == pytest.approx(5100)
    assert result.e2e_ms.p99 == pytest.approx(10_000)


def test_table_has_a_row_for_each_result():
    """Rows in the order of measurement, all with the same number of cells."""
    results: list[LevelResult] = [
        level_result(name, users, [{"answers": [answer(0.0, (0.1, 0.2), 0.3, 4)], "errors": {}}])
        for users in (1, 4)
        for name in ("speculative", "plain")
    ]
    lines = results_table(results).splitlines()
    assert len(lines) == 6
    assert {line.count("|") for line in lines} == {10}
    assert lines[2].startswith("| 1 | speculative | 13.3 | 100 / 100 | 33 / 33 | 100 / 100 | 300 / 300 | 1 | 0 |")


def test_rounds_are_pooled():
    """Answers of all rounds count together, over the time of all rounds without the pauses between them."""
    first = {"answers": [answer(0.0, (0.5,), 1.0, 10)], "errors": {"HTTP 503": 1}}
    second = {"answers": [answer(100.0, (100.5,), 103.0, 30)], "errors": {"HTTP 503": 2, "timeout": 1}}
    result = level_result("a", 1, [first, second, {"answers": [], "errors": {}}])
    assert (result.elapsed_s, result.output_tokens, result.tokens_per_s) == (4.0, 40, 10.0)
    assert result.errors == {"HTTP 503": 3, "timeout": 1}

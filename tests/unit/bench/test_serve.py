"""The load itself, by locust in its own process, on scripted servers with real sockets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench_doubles import serving
from eagle3.bench import serve
from eagle3.bench.serve import LoadPlan, run_load
from eagle3.bench.serve_system import System
from eagle3.errors import ConfigError, Eagle3Error, EngineUnavailableError


def plan(**values):
    """Six requests by two users, unless told otherwise."""
    defaults = {
        "levels": (2,), "prompts": ("one", "two", "three"), "max_tokens": 12, "duration_s": None, "requests": 6,
        "timeout_s": 5.0, "headers": {},
    }  # fmt: skip
    return LoadPlan(**{**defaults, **values})


def load(script_values, **values):
    """Results and script of one scripted server."""
    with serving(**script_values) as (url, script):
        return run_load([System(name="a", url=url, model="scripted")], plan(**values)), script


def test_counts_and_times():
    """Tokens come from the usage, times from the chunks: 30 ms to the first, 10 ms between, 4 chunks of 3 tokens."""
    (result,), script = load({})
    assert result.requests == 6
    assert result.errors == {}
    assert result.output_tokens == 72
    assert result.prompt_tokens == 30
    assert result.ttft_ms.p50 >= 30
    assert result.chunk_gap_ms.p50 >= 10
    # 30 ms of decoding over 11 tokens; the script's own delays make it a little more.
    assert 2.7 <= result.time_per_output_token_ms.p50 < 20
    assert result.time_per_output_token_ms.p50 < result.chunk_gap_ms.p50
    assert result.e2e_ms.p50 >= 60
    assert script.most_at_once == 2


def test_requests_are_greedy_streams_with_usage_in_the_order_of_the_prompts():
    """One warm-up that is not measured, then the prompts in turn."""
    _, script = load({}, levels=(1,), requests=4, headers={"Authorization": "Bearer k"})
    warm_up, *measured = script.bodies
    assert "stream" not in warm_up
    assert [body["messages"][0]["content"] for body in measured] == ["one", "two", "three", "one"]
    for body in measured:
        assert (body["temperature"], body["stream"], body["max_tokens"]) == (0, True, 12)
        assert body["stream_options"] == {"include_usage": True}
        assert body["model"] == "scripted"
    assert {headers["Authorization"] for headers in script.headers} == {"Bearer k"}


def test_duration_ends_the_load_and_every_user_asks():
    """Each of eight users sends at least once, and no request begins after the time is over."""
    (result,), script = load({"first_s": 0.3}, levels=(8,), requests=None, duration_s=0.1)
    assert result.requests == 8
    assert script.most_at_once == 8


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ({"status": 503}, "HTTP 503"),
        ({"status": 429}, "HTTP 429"),
        ({"ending": "no usage"}, "a stream without usage"),
        ({"ending": "no done"}, "a stream without its end"),
        ({"ending": "error"}, "an error in the stream"),
        ({"ending": "cut"}, "ChunkedEncodingError"),
    ],
)
def test_failures_are_counted_by_kind_and_measured_nowhere(script, error):
    """A failed request is an error, and no token, latency or throughput comes from it."""
    (result,), _ = load(script)
    assert result.errors == {error: 6}
    assert result.requests == 0
    assert result.tokens_per_s == 0
    assert result.e2e_ms is None


def test_a_server_that_stalls_times_out():
    """No byte for the given time is an error, not a hang."""
    with serving(first_s=1.5) as (url, _):
        (result,) = run_load(
            [System(name="a", url=url, model="scripted")], plan(requests=1, levels=(1,), timeout_s=0.3)
        )
    assert sum(result.errors.values()) == 1
    assert result.requests == 0


def test_levels_go_round_all_systems():
    """Every level measures every system before the next begins, and each result is reported as it comes."""
    seen = []
    with serving() as (first, _), serving(tokens_per_chunk=1) as (second, _):
        systems = [System(name=name, url=url, model="scripted") for name, url in (("a", first), ("b", second))]
        results = run_load(systems, plan(levels=(1, 2), requests=2), seen.append)
    assert [(result.concurrency, result.system) for result in results] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert [result.output_tokens for result in results] == [24, 8, 24, 8]
    assert seen == results


def test_rounds_go_there_and_back(monkeypatch):
    """Two rounds measure a, b, b, a, so that a machine that slows down slows both; each system has one result."""
    order = []

    def load(system, level, plan):
        order.append((level, system.name))
        return {"answers": [], "errors": {"HTTP 503": 1}}

    monkeypatch.setattr(serve, "_load", load)
    monkeypatch.setattr(serve, "ask_once", lambda *_args, **_options: None)
    systems = [System(name=name, url="http://127.0.0.1:1", model="m") for name in "ab"]
    results = run_load(systems, plan(levels=(1, 4), rounds=2))
    assert order == [(level, name) for level in (1, 4) for name in "abba"]
    assert [(result.concurrency, result.system) for result in results] == [(1, "a"), (1, "b"), (4, "a"), (4, "b")]
    assert all(result.errors == {"HTTP 503": 2} for result in results)


def test_a_system_that_is_gone():
    """A server that does not even answer the warm-up ends the test with its address."""
    with serving() as (url, _):
        pass
    with pytest.raises(EngineUnavailableError, match=url):
        run_load([System(name="a", url=url, model="scripted")], plan())


def test_missing_locust_names_the_extra(monkeypatch):
    """Without the extra the error says what to install."""
    monkeypatch.setattr(serve.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"eagle3-kit\[bench\]"):
        run_load([], plan())


def test_a_worker_that_fails_is_an_error(monkeypatch, tmp_path):
    """What the worker complained about is shown."""
    broken = tmp_path / "worker.py"
    broken.write_text("raise SystemExit('no load today')")
    monkeypatch.setattr(serve, "_WORKER", broken)
    with pytest.raises(Eagle3Error, match="no load today"):
        load({})


def test_locust_stays_out_of_this_process():
    """Importing the load test, its command included, imports neither locust nor gevent."""
    code = "import sys, eagle3.cli.run.bench_serve; sys.exit(any(name in sys.modules for name in ('locust', 'gevent')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

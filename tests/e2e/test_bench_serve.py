"""`eagle3 bench serve` from end to end: command line, load by locust, table, JSON and chart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench_doubles import serving
from builders import write_byte_model
from eagle3.cli.main import main

DOUBLE = Path(__file__).parents[1] / "bench_doubles.py"
LATENCIES = ("ttft_ms", "time_per_output_token_ms", "chunk_gap_ms", "e2e_ms")


@pytest.fixture
def model(tmp_path):
    """A random model of 260 tokens."""
    return write_byte_model(tmp_path / "model")


@pytest.fixture
def fake_vllm(tmp_path, model):
    """An executable that takes vLLM's arguments and serves scripted answers."""
    path = tmp_path / "vllm"
    path.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"assert sys.argv[1:3] == ['serve', {str(model)!r}], sys.argv\n"
        "assert sys.argv[-2:] == ['--max-model-len', '2048'], sys.argv\n"
        "port = sys.argv[sys.argv.index('--port') + 1]\n"
        f"os.execv(sys.executable, [sys.executable, {str(DOUBLE)!r}, port])\n"
    )
    path.chmod(0o755)
    return path


def test_compares_a_given_and_a_started_server(tmp_path, capsys, fake_vllm, model):
    """Both are measured at both levels; table, JSON and chart say the same."""
    with serving(tokens_per_chunk=1) as (url, _):
        code = main([
            "bench", "serve", "--url", f"given={url}", "--vllm-executable", str(fake_vllm), "--target",
            str(model), "--vllm-arguments", "--max-model-len 2048", "--concurrency", "1,2", "--requests", "3",
            "--max-tokens", "12", "--json", str(tmp_path / "r.json"), "--chart", str(tmp_path / "r.png"),
        ])  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0
    assert captured.err == "starting vllm\n"
    report = json.loads((tmp_path / "r.json").read_text())
    results = report["results"]
    assert [(row["concurrency"], row["system"]) for row in results] == [
        (1, "given"), (1, "vllm"), (2, "given"), (2, "vllm"),
    ]  # fmt: skip
    for row in results:
        assert (row["requests"], row["errors"]) == (3, {})
        assert row["output_tokens"] == (12 if row["system"] == "given" else 36)
        assert all(0 < row[name]["p50"] <= row[name]["p99"] for name in LATENCIES)
    assert report["load"] == {
        "levels": [1, 2], "prompts": 16, "max_tokens": 12, "duration_s": None, "requests": 3, "rounds": 1,
    }  # fmt: skip
    assert captured.out.count("| given |") == captured.out.count("| vllm |") == 2
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_prompts_of_a_file(tmp_path, capsys):
    """The reader of `generate` is used: any of its shapes, and a limit."""
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"turns": ["alpha", "later"]}\n{"prompt": "beta"}\n{"prompt": "gamma"}\n')
    with serving() as (url, script):
        code = main([
            "bench", "serve", "--url", f"a={url}", "--concurrency", "1", "--requests", "3", "--prompts", str(path),
            "--limit", "2", "--api-key", "secret",
        ])  # fmt: skip
    assert code == 0
    sent = [body["messages"][0]["content"] for body in script.bodies if body.get("stream")]
    assert sent == ["alpha", "beta", "alpha"]
    assert all(headers["Authorization"] == "Bearer secret" for headers in script.headers)
    assert "| 1 | a |" in capsys.readouterr().out


def test_a_level_without_an_answer_fails_the_command(capsys):
    """Results are printed all the same, and the exit code says that they are not a measurement."""
    with serving(status=503) as (url, _):
        code = main(["bench", "serve", "--url", f"a={url}", "--concurrency", "1", "--requests", "2"])
    assert code == 1
    assert "| 2 HTTP 503 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--concurrency", "1,x"], "--concurrency: got '1,x'"),
        (["--concurrency", "0"], "from 1 to 1024"),
        (["--requests", "0"], "--requests must be above 0; got 0"),
        (["--duration-s", "-1"], "--duration-s must be above 0"),
        (["--duration-s", "nan"], "--duration-s must be above 0"),
        (["--max-tokens", "0"], "--max-tokens must be above 0"),
        (["--limit", "0"], "--limit must be above 0"),
        (["--url", "http://host"], "NAME=http://HOST:PORT"),
        (["--url", "a=http://h", "--url", "a=http://h"], "two systems are called 'a'"),
        (["--system", "vllm-speculative", "--target", "some/model"], "needs a draft"),
        (["--json", "/nowhere/r.json"], "its directory does not exist"),
        (["--system", "speculative", "--target", "some/model"], "needs a draft"),
    ],
)
def test_refuses(arguments, complaint, capsys):
    """Bad input exits with 2 and one line that says what is allowed, before anything is started."""
    assert main(["bench", "serve", *arguments]) == 2
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""

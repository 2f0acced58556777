"""`eagle3 serve` as a process: starts, answers, drains, and survives a log that cannot be written."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from builders import write_byte_model
from serve_process import serving


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of random weights; the file's name becomes the model's."""
    return write_byte_model(tmp_path_factory.mktemp("models") / "tiny-bytes")


def body(**changes: Any) -> dict[str, Any]:
    """A request of the tiny model."""
    return {"model": "tiny-bytes", "prompt": "hello", "max_tokens": 8, "temperature": 0} | changes


@pytest.mark.slow
def test_it_starts_answers_and_drains(model: Path) -> None:
    """Says what it runs; SIGTERM in the middle of a stream lets it finish, refuses others, and the exit code is 0."""
    with serving("--target", str(model), "--threads", "1") as server:
        server.wait_ready()
        said = "".join(server.lines)
        for part in ("native", "tiny-bytes", "1024 tokens of context", "none: plain decoding", "open to everyone"):
            assert part in said
        server.wait_line("(ready after)")
        plain = httpx.post(f"{server.url}/v1/completions", json=body(), timeout=60.0)
        assert plain.status_code == 200
        assert plain.json()["usage"]["completion_tokens"] == 8
        long = body(max_tokens=600, stream=True, ignore_eos=True)
        with httpx.stream("POST", f"{server.url}/v1/completions", json=long, timeout=60.0) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            server.wait_line("(draining)")
            refused = httpx.post(f"{server.url}/v1/completions", json=body())
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            assert httpx.get(f"{server.url}/health").status_code == 200
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
        assert server.process.wait(20.0) == 0
    assert "hello" not in "".join(server.lines), "no prompt in the log"


@pytest.mark.slow
def test_a_killed_engine_is_started_again(model: Path) -> None:
    """Kill -9 in the middle of a stream: an error event, then not ready, then the same answer as before."""
    with serving("--target", str(model), "--threads", "1") as server:
        server.wait_ready()
        before = httpx.post(f"{server.url}/v1/completions", json=body(), timeout=60.0).json()["choices"]
        long = body(max_tokens=900, stream=True, ignore_eos=True)
        with httpx.stream("POST", f"{server.url}/v1/completions", json=long, timeout=60.0) as response:
            lines = response.iter_lines()
            next(lines)
            for child in psutil.Process(server.process.pid).children(recursive=True):
                child.kill()
            rest = [line for line in lines if line]
        assert json.loads(rest[-1].removeprefix("data: "))["error"]["code"] == "engine_unavailable"
        waited = httpx.post(f"{server.url}/v1/completions", json=body(), timeout=60.0)
        assert waited.status_code == 200
        assert waited.json()["choices"] == before
        assert "eagle3_engine_restarts_total 1.0" in httpx.get(f"{server.url}/metrics").text


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_for_logs_stops_nothing(model: Path) -> None:
    """Every write of the log fails; the server answers, drains and exits 0."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = ("--target", str(model), "--threads", "1", "--log-level", "DEBUG")
    with serving(*arguments, log=Path("/dev/full"), port=port) as server:
        server.wait_ready()
        answer = httpx.post(f"{server.url}/v1/completions", json=body(), timeout=60.0)
        assert answer.status_code == 200
        server.process.terminate()
        assert server.process.wait(20.0) == 0


def test_a_taken_port_is_one_line(model: Path) -> None:
    """No traceback: what, where, and what to do; exit code 2."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "eagle3.cli.main", "serve", "--target", str(model), "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"eagle3: cannot listen on 127.0.0.1 port {port}")
    assert ended.stderr.count("\n") == 1

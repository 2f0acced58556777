"""Servers under test: found at a URL, or started and stopped."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from bench_doubles import serving
from eagle3.bench.serve_system import (
    Command,
    System,
    ask_once,
    free_port,
    model_of,
    parse_url,
    started,
    unique,
)
from eagle3.errors import ConfigError, EngineUnavailableError

DOUBLE = Path(__file__).parents[2] / "bench_doubles.py"


def python(tmp_path, *argv, port=None):
    """A command that runs Python with these arguments."""
    return Command(
        name="mine", argv=(sys.executable, *map(str, argv)), port=port or free_port(), log=tmp_path / "mine.log"
    )


def test_started_server_answers_and_is_stopped(tmp_path):
    """Inside the context the server answers; after it, nothing of it runs."""
    port = free_port()
    with started(python(tmp_path, DOUBLE, port, port=port), timeout_s=30) as system:
        assert system == System(name="mine", url=f"http://127.0.0.1:{port}", model="scripted")
        ask_once(system, timeout_s=5)
    with pytest.raises(EngineUnavailableError):
        model_of(system.url)


def test_a_server_is_stopped_when_the_test_fails(tmp_path):
    """An error inside the context stops it too."""
    port = free_port()

    def fail():
        with started(python(tmp_path, DOUBLE, port, port=port), timeout_s=30):
            raise RuntimeError("in the test")

    with pytest.raises(RuntimeError, match="in the test"):
        fail()
    with pytest.raises(EngineUnavailableError):
        model_of(f"http://127.0.0.1:{port}")


def test_what_a_server_left_behind_is_stopped(tmp_path):
    """Children that outlive their server are ended with it."""
    mark = f"left-behind-{free_port()}"
    code = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', "
        f"'{mark}']); sys.exit(3)"
    )
    with pytest.raises(EngineUnavailableError), started(python(tmp_path, "-c", code), timeout_s=30):
        pass
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (left := _running(mark)):
        time.sleep(0.05)
    assert not left


def _running(mark):
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if mark in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_a_server_that_ends_shows_its_log(tmp_path):
    """The last lines of what it said are in the error."""
    command = python(tmp_path, "-c", "print('first'); raise SystemExit('no such model')")
    with pytest.raises(EngineUnavailableError, match=r"mine ended; .*no such model"), started(command, timeout_s=30):
        pass


def test_a_server_that_never_answers(tmp_path):
    """After the time to start it is given up and stopped."""
    command = python(tmp_path, "-c", "import time; time.sleep(60)")
    with pytest.raises(EngineUnavailableError, match=r"did not answer within 0\.5 s"), started(command, timeout_s=0.5):
        pass


def test_an_executable_that_does_not_exist(tmp_path):
    """The command is named."""
    command = Command(name="vllm", argv=("/nowhere/vllm", "serve"), port=1, log=tmp_path / "log")
    with (
        pytest.raises(ConfigError, match=r"cannot start vllm \(/nowhere/vllm\): No such file"),
        started(command, timeout_s=1),
    ):
        pass


def test_keys_are_sent():
    """Warming up and listing models carry the given headers."""
    with serving() as (url, script):
        assert model_of(url, {"Authorization": "Bearer k"}) == "scripted"
        ask_once(System(name="a", url=url, model="scripted"), timeout_s=5, headers={"Authorization": "Bearer k"})
        assert script.headers[0]["Authorization"] == "Bearer k"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("a=http://host:1", ("a", "http://host:1")),
        ("b c=https://host/v1", ("b c", "https://host")),
        ("d=http://host/", ("d", "http://host")),
    ],
)
def test_accepts_urls(text, parsed):
    """A trailing slash or the API's own prefix does no harm."""
    assert parse_url(text) == parsed


@pytest.mark.parametrize("text", ["http://host:1", "=http://host", "a=host:1", "a=ftp://host", ""])
def test_refuses_urls(text):
    """A name and an HTTP URL are needed."""
    with pytest.raises(ConfigError, match="NAME=http://HOST:PORT"):
        parse_url(text)


def test_names_must_differ():
    """Two systems of one name could not be told apart in the results."""
    unique(["a", "b"])
    with pytest.raises(ConfigError, match="'a'"):
        unique(["a", "b", "a"])

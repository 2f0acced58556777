"""The entry point as a program, with a scripted `eagle3` on the PATH that reports what it was started with."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from images.entrypoint.eagle3_entrypoint import Command, EntrypointError, command
from images.entrypoint.eagle3_healthcheck import health_url

_FOLDER = Path(__file__).resolve().parents[2] / "images" / "entrypoint"
_ENTRYPOINT = _FOLDER / "eagle3_entrypoint.py"
_HEALTHCHECK = _FOLDER / "eagle3_healthcheck.py"

_SCRIPTED = """#!{python}
import json, os, signal, sys
if "wait" in sys.argv:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
    print("waiting", flush=True)
    signal.pause()
settings = {{name: value for name, value in os.environ.items() if name.startswith("EAGLE3_")}}
print(json.dumps({{"arguments": sys.argv[1:], "settings": settings, "process": os.getpid()}}))
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH holds the scripted `eagle3` and nothing of the kit."""
    program = tmp_path / "bin" / "eagle3"
    program.parent.mkdir()
    program.write_text(_SCRIPTED.format(python=sys.executable))
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/usr/bin:/bin"}


def run(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(_ENTRYPOINT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=30)


def model(folder: Path, name: str = "config.json") -> Path:
    """A folder that looks like a model."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("{}")
    return folder


@pytest.mark.parametrize("arguments", [[], ["serve"]])
def test_sagemaker_starts_the_server_where_it_is_asked_for(arguments: list[str], environment: dict[str, str]) -> None:
    """No argument and `serve` start `eagle3 serve` on every address, port 8080, with the default model."""
    done = run(*arguments, environment=environment)
    assert json.loads(done.stdout)["arguments"] == ["serve"]
    assert json.loads(done.stdout)["settings"] == {"EAGLE3_SERVING__HOST": "0.0.0.0", "EAGLE3_SERVING__PORT": "8080"}


def test_what_the_environment_says_wins(environment: dict[str, str]) -> None:
    """Variables of the container win over SageMaker's defaults, EAGLE3_* over SageMaker's own port."""
    given = {"EAGLE3_SERVING__HOST": "127.0.0.1", "EAGLE3_TARGET": "embedded", "SAGEMAKER_BIND_TO_PORT": "9000"}
    settings = json.loads(run("serve", environment=environment | given).stdout)["settings"]
    assert settings == {
        "EAGLE3_SERVING__HOST": "127.0.0.1",
        "EAGLE3_SERVING__PORT": "9000",
        "EAGLE3_TARGET": "embedded",
    }
    given["EAGLE3_SERVING__PORT"] = "9001"
    settings = json.loads(run("serve", environment=environment | given).stdout)["settings"]
    assert settings["EAGLE3_SERVING__PORT"] == "9001"


def test_commands_run_as_given(environment: dict[str, str]) -> None:
    """`eagle3 …` gets arguments and environment untouched, spaces and empty words included; so does any other."""
    words = ["serve", "--config", "/etc/eagle3/config.yaml", "two words", "", "--", "*"]
    done = run("eagle3", *words, environment=environment)
    assert json.loads(done.stdout) | {"process": 0} == {"arguments": words, "settings": {}, "process": 0}
    assert run("echo", "-n", "$HOME", environment=environment).stdout == "$HOME"


@pytest.mark.parametrize("code", [0, 2, 143])
def test_exit_codes_are_the_commands_own(code: int, environment: dict[str, str]) -> None:
    """What the command exits with is what the container exits with."""
    assert run("serve", environment=environment | {"CODE": str(code)}).returncode == code


def test_signals_reach_the_command(environment: dict[str, str]) -> None:
    """The command has taken the entry point's process, so that SIGTERM needs nobody to pass it on."""
    with subprocess.Popen(
        [sys.executable, str(_ENTRYPOINT), "eagle3", "wait"], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 7


def test_the_command_takes_over_the_process(environment: dict[str, str]) -> None:
    """The command runs under the very process id that was started: exec, no child."""
    with subprocess.Popen(
        [sys.executable, str(_ENTRYPOINT), "eagle3"], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["process"] == process.pid


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["no-such-program"], 127, "no such command"),
        (["/etc"], 126, "Permission denied"),
        (["serve", "--port", "1"], 2, "run `eagle3 serve …`"),
        (["--help"], 2, "`serve` alone"),
    ],
)
def test_refuses_what_it_cannot_start(arguments: list[str], code: int, words: str, environment: dict[str, str]) -> None:
    """One line on stderr and the shell's exit code; `serve` with flags would give one setting two sources."""
    done = run(*arguments, environment=environment)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def _settings(folder: Path, **environ: str) -> dict[str, str]:
    chosen: Command = command(["serve"], environ, model_folder=folder)
    return {name: value for name, value in chosen.environment.items() if "SERVING" not in name}


def test_finds_the_mounted_model(tmp_path: Path) -> None:
    """target/ and draft/ where they are; else the folder itself; a GGUF file by its name."""
    assert _settings(tmp_path / "absent") == {}
    (tmp_path / "empty").mkdir()
    assert _settings(tmp_path / "empty") == {}
    both = tmp_path / "both"
    target = {"EAGLE3_TARGET": str(model(both / "target"))}
    assert _settings(both) == target
    assert _settings(both, EAGLE3_DRAFT="/own") == target | {"EAGLE3_DRAFT": "/own"}
    assert _settings(both) == target
    draft = {"EAGLE3_DRAFT": str(model(both / "draft"))}
    assert _settings(both) == target | draft
    whole = model(tmp_path / "whole")
    assert _settings(whole) == {"EAGLE3_TARGET": str(whole)}
    quantised = model(tmp_path / "quantised" / "target", "model.Q4_1.gguf")
    assert _settings(quantised.parent) == {"EAGLE3_TARGET": str(quantised / "model.Q4_1.gguf")}


def test_a_target_that_is_named_stays(tmp_path: Path) -> None:
    """EAGLE3_TARGET says everything about the model: nothing mounted is added to it, a draft least of all."""
    model(tmp_path / "target")
    model(tmp_path / "draft")
    assert _settings(tmp_path, EAGLE3_TARGET="/models/own") == {"EAGLE3_TARGET": "/models/own"}


def test_refuses_a_mounted_folder_without_a_target(tmp_path: Path) -> None:
    """Files that are no target must not make the default model serve in its place."""
    model(tmp_path / "draft")
    model(tmp_path / "llama" / "target")
    with pytest.raises(EntrypointError, match=r"holds no target; got draft, llama; allowed: target/"):
        command([], {}, model_folder=tmp_path)
    model(tmp_path / "target", "a.gguf")
    model(tmp_path / "target", "b.gguf")
    with pytest.raises(EntrypointError, match=r"one \.gguf file"):
        command([], {}, model_folder=tmp_path)


def test_refuses_a_model_that_it_may_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files for root alone are named, with what to do; nothing else serves in their place."""

    def refused(folder: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(EntrypointError, match=rf"user {os.getuid()} may not read {tmp_path}; let everyone read"):
        command([], {}, model_folder=tmp_path)


@pytest.fixture
def answering() -> Iterator[int]:
    """Port of a server that answers /health alone."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_health_check_follows_the_server(answering: int) -> None:
    """0 while /health answers 200; 1 and the reason on stderr where nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for port, code in ((answering, 0), (unused.getsockname()[1], 1)):
            done = subprocess.run(
                [sys.executable, str(_HEALTHCHECK)],
                capture_output=True,
                text=True,
                env={"EAGLE3_SERVING__PORT": str(port)},
                check=False,
            )
            assert done.returncode == code
            assert bool(done.stderr) == bool(code)


def test_health_check_knows_the_port() -> None:
    """The server's variable, then SageMaker's, then 8080."""
    assert health_url({}) == "http://127.0.0.1:8080/health"
    assert health_url({"SAGEMAKER_BIND_TO_PORT": "9"}) == "http://127.0.0.1:9/health"
    both = {"SAGEMAKER_BIND_TO_PORT": "9", "EAGLE3_SERVING__PORT": "7"}
    assert health_url(both) == "http://127.0.0.1:7/health"

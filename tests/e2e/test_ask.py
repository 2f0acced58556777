"""`eagle3 ask` against a real `eagle3 serve`: as OpenAI's server and, through AWS's own client, as an endpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ask_doubles import CHUNKS, STREAM, HandWrittenServer, event
from builders import write_byte_model
from eagle3.cli.main import main
from serve_process import serving

ROOT = Path(__file__).parents[2]
SDK_PYTHON = ROOT / ".venv-sagemaker/bin/python"
NO_AWS = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
KEYS = {"AWS_ACCESS_KEY_ID": "unused", "AWS_SECRET_ACCESS_KEY": "unused", "AWS_REGION": "us-east-1"}
SSE = {"content_type": "text/event-stream"}
PROMPT = ["Name", "three", "planets.", "--temperature", "0", "--max-tokens", "12"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server with a tiny model of random weights."""
    model = write_byte_model(tmp_path_factory.mktemp("models") / "tiny-bytes")
    with serving("--target", str(model), "--threads", "1") as server:
        server.wait_ready()
        yield server.url


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment in which AWS's clients find nothing but what a test gives them."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in NO_AWS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def lines_of(capsys: Any) -> tuple[str, str]:
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.slow
def test_a_real_server_by_url(url: str, capsys: Any) -> None:
    """Streamed, whole and as JSON the answer is the same; usage and rates go to stderr."""
    assert main(["ask", *PROMPT, "--url", url]) == 0
    text, _ = lines_of(capsys)
    assert text.endswith("\n")
    assert len(text) > 1
    assert main(["ask", *PROMPT, "--url", url, "--no-stream", "--verbose"]) == 0
    whole, told = lines_of(capsys)
    assert whole == text
    assert "12 tokens" in told
    assert "tokens/s" in told
    assert main(["ask", *PROMPT, "--url", url, "--json"]) == 0
    report = json.loads(lines_of(capsys)[0])
    assert report["text"] + "\n" == text
    assert (report["model"], report["usage"]["completion_tokens"]) == ("tiny-bytes", 12)
    assert report["tokens_per_second"] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_a_real_server_as_an_endpoint(url: str, aws: pytest.MonkeyPatch, capsys: Any) -> None:
    """boto3's client, sent to the server, gives the same text; its refusal is the server's own words, exit code 2."""
    assert main(["ask", *PROMPT, "--url", url]) == 0
    text, _ = lines_of(capsys)
    for name, value in (KEYS | {"AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": url}).items():
        aws.setenv(name, value)
    for flags in ([], ["--no-stream"]):
        assert main(["ask", *PROMPT, "--endpoint", "eagle3-dev-small-endpoint", *flags]) == 0
        assert lines_of(capsys)[0] == text
    assert main(["ask", "Hi", "--endpoint", "x", "--max-tokens", "1000000"]) == 2
    assert "max_tokens is 1000000" in lines_of(capsys)[1]


@pytest.mark.slow
def test_the_sagemaker_sdk(url: str, capsys: Any) -> None:
    """With --sdk sagemaker the SDK's clients ask, in an environment of its own, and the text is the same."""
    if not SDK_PYTHON.exists():
        pytest.skip(f"{SDK_PYTHON.relative_to(ROOT)} is not there; `make test` makes it")
    assert main(["ask", *PROMPT, "--url", url]) == 0
    text, _ = lines_of(capsys)
    environ = NO_AWS | KEYS | {"AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": url, "PYTHONPATH": str(ROOT / "runtime")}
    command = [str(SDK_PYTHON), "-m", "eagle3.cli.main", "ask", *PROMPT, "--endpoint", "x", "--sdk", "sagemaker"]
    for flags in ([], ["--no-stream"]):
        done = subprocess.run([*command, *flags], env=environ, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, text), done.stderr


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--endpoint", "x"], 2, "no AWS region"),
        (["--endpoint", "x", "--region", "us-east-1"], 2, "no AWS credentials"),
        (["--endpoint", "x", "--region", "us-east-1", "--profile", "none-such"], 2, "none-such"),
        (["--endpoint", "x", "--region", "no region"], 2, "--region"),
        (["--endpoint", "under_score"], 2, "no endpoint's name"),
        (["--url", "nowhere"], 2, "--url"),
        (["--url", "http://127.0.0.1:1"], 5, "is a server running there"),
        (["--url", "http://127.0.0.1:1", "--region", "us-east-1"], 2, "--endpoint"),
        (["--url", "http://127.0.0.1:1", "--timeout-s", "0"], 2, "--timeout-s"),
        (["--url", "http://127.0.0.1:1", "--top-p", "0"], 2, "--top-p"),
    ],
)
def test_bad_input_is_one_line(flags: list[str], code: int, words: str, aws: Any, capsys: Any) -> None:
    """One line on stderr that says what to do, nothing on stdout, the right exit code."""
    assert main(["ask", "Hi", *flags]) == code
    out, error = lines_of(capsys)
    assert (out, error.count("\n")) == ("", 1)
    assert words in error


@pytest.mark.parametrize("flags", [[], ["--url", "http://x", "--endpoint", "y"]])
def test_one_place_to_ask(flags: list[str]) -> None:
    """Either an endpoint or a URL, and not both."""
    with pytest.raises(SystemExit, match="2"):
        main(["ask", "Hi", *flags])


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_an_endpoint_that_cannot_be_reached(aws: pytest.MonkeyPatch, capsys: Any) -> None:
    """A region whose address nothing answers at is no fault of the question."""
    for name, value in (KEYS | {"AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": "http://127.0.0.1:1"}).items():
        aws.setenv(name, value)
    assert main(["ask", "Hi", "--endpoint", "x"]) == 5
    assert "check the region" in lines_of(capsys)[1]


def asking(url: str, *arguments: str) -> subprocess.Popen[str]:
    """The command as a process."""
    command = [sys.executable, "-m", "eagle3.cli.main", "ask", *arguments, "--url", url]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT / "runtime"
    )


def test_text_comes_while_it_is_made_and_ctrl_c_ends_it() -> None:
    """The first text is on a pipe before the rest exists; SIGINT then ends in order: a line end, 130, no traceback."""
    more = threading.Event()

    def parts() -> Iterator[bytes]:
        yield event(CHUNKS[0])
        more.wait(60)

    with HandWrittenServer(parts(), **SSE) as server:
        process = asking(server.url, "Hi")
        assert process.stdout is not None
        assert process.stdout.read(7) == "Mercury"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        more.set()
    assert (process.returncode, out, error) == (130, "\n", "eagle3: interrupted\n")


def test_stdin() -> None:
    """A single hyphen reads the prompt from stdin, line ends included."""
    with HandWrittenServer([STREAM], **SSE) as server:
        out, error = asking(server.url, "-").communicate("Name\nthree planets.", timeout=60)
        (sent,) = server.requests
    assert sent["body"]["messages"] == [{"role": "user", "content": "Name\nthree planets."}]
    assert (out, error) == ("Mercury, Venus and Mars.\n", "")


def test_a_cut_stream_leaves_its_text() -> None:
    """What came stays on stdout; the error begins a line of its own and says that the text is incomplete; 5."""
    with HandWrittenServer([event(CHUNKS[0])], cut=True, **SSE) as server:
        process = asking(server.url, "Hi")
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (5, "Mercury\n")
    assert "text is incomplete" in error
    assert error.count("\n") == 1

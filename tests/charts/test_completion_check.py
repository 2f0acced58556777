"""The pod of `helm test`, and its program run against real sockets."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from chart_doubles import render
from serve_process import serving

ANSWER = {"choices": [{"message": {"content": "Hello."}}], "usage": {"completion_tokens": 2}}


@contextmanager
def server(answer: dict[str, Any], *, ready: int = 200, key: str | None = None) -> Iterator[str]:
    """A server that says `ready` at /ready and `answer` to whoever has the key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path in ("/ready", "/v1/models")
            if self.path == "/ready":
                self.say(ready, {})
            else:
                self.answer({"data": [{"id": "served"}]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v1/chat/completions"
            assert request["messages"]
            assert request["model"] == "served"
            self.answer(answer)

        def answer(self, body: dict[str, Any]) -> None:
            allowed = key is None or self.headers["Authorization"] == f"Bearer {key}"
            self.say(200 if allowed else 401, body if allowed else {"error": {"message": "unknown key"}})

        def say(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()


def check(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as the rendered pod does, against another address."""
    _, flag, program, *_ = render().only("Pod")["spec"]["containers"][0]["command"]
    command = [sys.executable, flag, program, url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_answer_passes() -> None:
    """A ready server that answers ends the check with 0, and the answer is shown."""
    with server(ANSWER) as url:
        done = check(url, "10")
    assert done.returncode == 0, done.stderr
    assert "Hello." in done.stdout


def test_no_answer_fails() -> None:
    """An empty answer, a server that is not ready, and one that is not there each end it with 1 and a reason."""
    with server({"choices": [{"message": {"content": ""}}], "usage": {"completion_tokens": 0}}) as url:
        empty = check(url, "10")
    with server(ANSWER, ready=503) as url:
        loading = check(url, "1")
    absent = check("http://127.0.0.1:9", "1")
    assert (empty.returncode, loading.returncode, absent.returncode) == (1, 1, 1)
    assert "the answer is empty" in empty.stderr
    assert "503" in loading.stderr
    assert "refused" in absent.stderr


def test_the_key_is_sent(tmp_path: Path) -> None:
    """The first key of the file opens a server with keys; without the file it is refused with the server's words."""
    keys = tmp_path / "keys"
    keys.write_text("# clients\n\nsearch:s3cret:x\nother:y\n", encoding="utf-8")
    none = tmp_path / "none"
    none.write_text("# clients\n", encoding="utf-8")
    with server(ANSWER, key="s3cret:x") as url:
        assert check(url, "10", str(keys)).returncode == 0
        refused, empty = check(url, "10"), check(url, "10", str(none))
    assert refused.returncode == empty.returncode == 1
    assert "unknown key" in refused.stderr
    assert "holds no key" in empty.stderr


@pytest.mark.slow
def test_the_rendered_config_starts_a_server_that_passes(tmp_path: Path) -> None:
    """The default release's config file starts the real server; check and NOTES' request get real answers from it."""
    config = tmp_path / "config.yaml"
    config.write_text(render().only("ConfigMap", "eagle3")["data"]["config.yaml"], encoding="utf-8")
    with serving("--config", str(config)) as real:
        url = real.url.replace("0.0.0.0", "127.0.0.1")
        done = check(url, "200")
        question = {"messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": 4}
        noted = httpx.post(f"{url}/invocations", json=question, timeout=60)
    assert done.returncode == 0, done.stderr
    assert noted.status_code == 200, noted.text


def test_the_pod_is_a_hook_that_asks_the_service() -> None:
    """The pod runs on `helm test` alone, asks the release's Service at its port, and is cleaned up."""
    rendered = render({"service": {"port": 80}, "tests": {"timeoutSeconds": 30}, "apiKeys": {"existingSecret": "keys"}})
    pod, service = rendered.only("Pod"), rendered.only("Service")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["restartPolicy"] == "Never"
    url, seconds, keys = pod["spec"]["containers"][0]["command"][3:]
    assert url == f"http://{service['metadata']['name']}:80"
    assert seconds == "30"
    assert keys.startswith(pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"])
    assert not render({"tests": {"enabled": False}}).all("Pod")


def test_the_notes_tell_the_next_commands() -> None:
    """NOTES says how to wait, how to ask and how to test, with the names of the release."""
    notes = render({"service": {"port": 80}}, release="chat", namespace="llm").texts["templates/NOTES.txt"]
    for part in (
        "kubectl --namespace llm wait",
        "port-forward service/chat-eagle3 80:80",
        "helm test chat --namespace llm",
    ):
        assert part in notes
    assert "Authorization" not in notes
    keyed = render({"apiKeys": {"existingSecret": "keys"}}).texts["templates/NOTES.txt"]
    assert "Authorization: Bearer" in keyed
    idle = {"config": {"device": "cuda", "engine": {"tensor_parallel": 2, "name": "vllm"}}, "gpus": {"count": 8}}
    assert "6 of the GPUs of a pod idle" in render(idle).texts["templates/NOTES.txt"]

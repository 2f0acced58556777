"""Servers under test: started as processes of their own on free ports, or found at a URL.

Knows the OpenAI API and nothing of what answers. Invariant: a server that was started here is stopped when its
context ends, however it ends.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from eagle3.errors import ConfigError, EngineUnavailableError

_POLL_S = 0.25
_STOP_S = 40.0
_LOG_LINES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """A server that answers."""

    name: str
    url: str
    """Without a path, such as http://127.0.0.1:8080."""
    model: str
    """As the API names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """How to start a server."""

    name: str
    argv: tuple[str, ...]
    port: int
    log: Path
    """Its stdout and stderr."""
    environment: Mapping[str, str] | None = None
    """None: that of this process."""


def free_port() -> int:
    """A TCP port of this host that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(command: Command, *, timeout_s: float, headers: Mapping[str, str] | None = None) -> Iterator[System]:
    """A started server that has answered once; EngineUnavailableError with the end of its log if it never does."""
    with command.log.open("wb") as log:
        try:
            process = subprocess.Popen(  # noqa: S603, what the user asked to start
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=command.environment,
            )
        except OSError as error:
            raise ConfigError(f"cannot start {command.name} ({command.argv[0]}): {error.strerror}") from error
    try:
        yield _wait(command, process, timeout_s, headers)
    finally:
        _stop(process)


def _wait(
    command: Command, process: subprocess.Popen[bytes], timeout_s: float, headers: Mapping[str, str] | None
) -> System:
    deadline_s = time.monotonic() + timeout_s
    url = f"http://127.0.0.1:{command.port}"
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            system = System(name=command.name, url=url, model=model_of(url, headers))
            ask_once(system, timeout_s=max(1.0, deadline_s - time.monotonic()), headers=headers)
        except EngineUnavailableError:
            time.sleep(_POLL_S)
        else:
            return system
    state = f"did not answer within {timeout_s:g} s" if process.poll() is None else "ended"
    lines = command.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    raise EngineUnavailableError(f"{command.name} {state}; the end of its log: {' | '.join(lines) or '(empty)'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    try:
        os.killpg(process.pid, signal.SIGKILL)  # what the server itself started and left behind
    except ProcessLookupError:
        return


def model_of(url: str, headers: Mapping[str, str] | None = None) -> str:
    """Name of the first model that a server lists; EngineUnavailableError if it does not answer so."""
    response = _request("GET", f"{url}/v1/models", headers=headers, timeout_s=10.0)
    try:
        name: str = response["data"][0]["id"]
    except (KeyError, IndexError, TypeError) as error:
        raise EngineUnavailableError(f"{url}/v1/models lists no model") from error
    return name


def ask_once(system: System, *, timeout_s: float, headers: Mapping[str, str] | None = None) -> None:
    """Warm up by one short answer; EngineUnavailableError if there is none."""
    body = {
        "model": system.model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 8,
        "temperature": 0,
    }
    _request("POST", f"{system.url}/v1/chat/completions", headers=headers, json=body, timeout_s=timeout_s)


def _request(
    method: str, url: str, *, timeout_s: float, headers: Mapping[str, str] | None = None, json: Any = None
) -> Any:
    try:
        with httpx.Client(trust_env=False, timeout=timeout_s) as client:
            response = client.request(method, url, headers=headers, json=json)
            response.raise_for_status()
            return response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise EngineUnavailableError(f"{url} does not answer: {error}") from error


def parse_url(text: str) -> tuple[str, str]:
    """NAME=http://host:port; ConfigError for anything else."""
    name, _, url = text.partition("=")
    if not name or not url.startswith(("http://", "https://")):
        raise ConfigError(f"--url: got {text!r}; give NAME=http://HOST:PORT")
    return name, url.rstrip("/").removesuffix("/v1")


def unique(names: Sequence[str]) -> None:
    """ConfigError if two systems would have one name."""
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two systems are called {name!r}; names must differ")

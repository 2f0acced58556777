"""`serve`: from a config to a server that answers, until it is told to stop.

Binds the port first, so that a wrong address is one line and not a traceback. Knows no flags and no environment.
Invariant: the port is open before the engine has loaded; whoever asks early waits or is told why not.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Callable

from fastapi import APIRouter

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.serving import Serving
from eagle3.engine.interface import Engine
from eagle3.errors import ConfigError
from eagle3.metrics.registry import Metrics
from eagle3.models.embedded import target_path
from eagle3.models.tokenizer import load_tokenizer
from eagle3.server.announcement import ready, starting
from eagle3.server.app import build_app
from eagle3.server.auth import ApiKeys
from eagle3.server.gateway import Gateway
from eagle3.server.http_server import HttpServer
from eagle3.server.logs import ServerLog
from eagle3.server.response_cache import ResponseCache
from eagle3.server.target_facts import read_facts

_BACKLOG = 2048
_MOST_DESCRIPTORS = 65_536


def serve(
    config: DeploymentConfig,
    *,
    make_engine: Callable[[DeploymentConfig], Engine],
    routers_of: Callable[[Gateway], list[APIRouter]],
    descriptor: int = 2,
) -> int:
    """Serve until a signal ends it; returns the exit code. The log goes to `descriptor`."""
    started_s = time.monotonic()
    facts = read_facts(config)
    keys = None if config.serving.api_keys_file is None else ApiKeys(config.serving.api_keys_file)
    listener = _listen(config.serving)
    _allow_descriptors()
    log = ServerLog(config.serving.log_level, descriptor=descriptor)
    try:
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        log.announce(starting(config, facts, address=address, keys=None if keys is None else len(keys)))
        engine = make_engine(config)
        metrics = Metrics(config.metrics)
        gateway = Gateway(
            engine,
            load_tokenizer(target_path(config.target)),
            config.limits,
            metrics,
            facts,
            cache=ResponseCache(
                entries=config.serving.response_cache_entries, most_bytes=config.serving.response_cache_bytes
            ),
            created=int(time.time()),
        )
        server = HttpServer(
            build_app(gateway, engine, metrics, config, keys=keys, routers=routers_of(gateway)),
            gateway,
            config.limits,
            on_ready=lambda: log.announce(ready(engine.info, time.monotonic() - started_s)),
            on_drain=lambda: log.announce([f"draining for at most {config.limits.drain_s:g} s"]),
            on_hangup=(lambda: None) if keys is None else keys.reload,
        )
        asyncio.run(server.serve(sockets=[listener]))
        return 0 if server.stopped_by is None else 128 + server.stopped_by
    finally:
        listener.close()
        log.close()


def _listen(serving: Serving) -> socket.socket:
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    try:
        return socket.create_server((serving.host, serving.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {serving.host} port {serving.port}: {error.strerror or error}; "
            "choose another serving.host or serving.port"
        ) from error


def _allow_descriptors() -> None:
    """Every connection is a file descriptor, and the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

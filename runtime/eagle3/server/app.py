"""Puts the server together: middleware, routes, and the tasks that run beside them.

Knows no sockets and no signals. Invariant: the engine is started when the app starts and stopped when it ends, and no
task outlives the app.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware

from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.interface import Engine
from eagle3.metrics.emf_publisher import EmfPublisher
from eagle3.metrics.registry import Metrics
from eagle3.server import aws_event_stream
from eagle3.server.auth import ApiKeys, Authentication
from eagle3.server.body_limit import BodyLimit
from eagle3.server.error_boundary import ErrorBoundary
from eagle3.server.errors import install_error_handlers, log_unexpected
from eagle3.server.gateway import Gateway
from eagle3.server.health import health_router
from eagle3.server.request_id import RequestId
from eagle3.server.tracing import configure_tracing

logger = logging.getLogger(__name__)

_STOP_S = 20.0
_GZIP_LEVEL = 5
# A compressor would hold back the events of a stream.
_NEVER_COMPRESSED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, aws_event_stream.CONTENT_TYPE)


def build_app(
    gateway: Gateway,
    engine: Engine,
    metrics: Metrics,
    config: DeploymentConfig,
    *,
    keys: ApiKeys | None,
    routers: list[APIRouter],
) -> FastAPI:
    """The ASGI app of one engine; `routers` are the protocols that it speaks."""
    limits = config.limits
    publisher = None if config.metrics.emf == "off" else EmfPublisher(metrics, config.metrics, engine)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await engine.start()
        beside = [
            _beside(gateway.follow_engine(), "following the engine"),
            _beside(_report_regularly(gateway, config.metrics.interval_s), "reading the engine's counters"),
        ]
        if publisher is not None:
            beside.append(_beside(publisher.run(), "publishing to CloudWatch"))
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            try:
                async with asyncio.timeout(_STOP_S):
                    await engine.stop()
            except TimeoutError:
                logger.error("the engine did not stop within %g s", _STOP_S)
            if tracing is not None:
                await asyncio.to_thread(tracing.shutdown)

    app = FastAPI(
        title="eagle3",
        summary="OpenAI-compatible and SageMaker-compatible text generation",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        lifespan=lifespan,
        middleware=[
            Middleware(RequestId),
            Middleware(ErrorBoundary, on_reject=metrics.request_rejected),
            Middleware(Authentication, keys=keys),
            Middleware(
                BodyLimit,
                max_bytes=limits.max_body_bytes,
                idle_s=limits.idle_connection_s,
                total_s=limits.timeout_s,
            ),
            Middleware(GZipMiddleware, compresslevel=_GZIP_LEVEL, exclude_content_types=_NEVER_COMPRESSED),
        ],
    )
    install_error_handlers(app, metrics.request_rejected)
    app.include_router(health_router(gateway, metrics))
    for router in routers:
        app.include_router(router)
    endpoint = config.serving.tracing_endpoint
    tracing = None if endpoint is None else configure_tracing(app, endpoint, "eagle3")
    return app


def _beside(work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
    async def logged() -> None:
        try:
            await work
        except Exception as error:
            log_unexpected(error, what)

    return asyncio.get_running_loop().create_task(logged())


async def _report_regularly(gateway: Gateway, interval_s: float) -> None:
    while True:
        try:
            await gateway.report()
        except Exception as error:  # one reading lost; the next one comes
            log_unexpected(error, "reading the engine's counters")
        await asyncio.sleep(interval_s)

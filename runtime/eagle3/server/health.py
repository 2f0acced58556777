"""Routes for those who watch the server: is the process there, does the model answer, and the numbers."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from eagle3.errors import Eagle3Error
from eagle3.metrics.registry import Metrics
from eagle3.server.errors import log_unexpected
from eagle3.server.gateway import Gateway

_SNAPSHOT_S = 2.0


def health_router(gateway: Gateway, metrics: Metrics) -> APIRouter:
    """/health, /ready and /metrics; open to everyone."""
    router = APIRouter(tags=["health"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> JSONResponse:
        """200 for as long as the process serves, whatever the engine does."""
        return JSONResponse({"status": "ok"})

    @router.head("/ready", include_in_schema=False)
    @router.get("/ready", responses={503: {"description": "Not ready"}})
    async def ready() -> JSONResponse:
        """200 while the engine is ready and has answered its first token; else 503 and why."""
        if gateway.ready:
            return JSONResponse({"status": "ready"})
        return JSONResponse(
            {"status": "not ready", "reason": gateway.not_ready_reason}, status_code=503, headers={"Retry-After": "5"}
        )

    @router.get("/metrics", response_class=Response)
    async def prometheus() -> Response:
        """Prometheus metrics."""
        try:
            async with asyncio.timeout(_SNAPSHOT_S):
                await gateway.report()
        except (TimeoutError, Eagle3Error) as error:  # the last counters are better than none
            log_unexpected(error, "reading the engine's counters")
        body, content_type = metrics.prometheus()
        return Response(body, headers={"Content-Type": content_type})

    return router

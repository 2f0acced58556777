"""Optional OpenTelemetry: one span per generation request, sent to a collector as OTLP over HTTP.

Knows neither prompts nor answers: spans carry route, status, token counts and acceptance length, never text. Needs
the extra `tracing` only when it is configured. Invariant: the tracer provider belongs to one app, not to the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import FastAPI

from eagle3.engine.answer import Answer
from eagle3.engine.stats import DecodeStats
from eagle3.errors import ConfigError
from eagle3.server.job import Job

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_UNTRACED = "^[^/]*//[^/]*/(ping|metrics|health.*|livez|readyz|startupz|v1/models.*)(\\?.*)?$"
"""Probes and scrapes: they come every few seconds and say nothing about requests."""
_current: ContextVar[Any] = ContextVar("eagle3_request_span", default=None)


def configure_tracing(
    app: FastAPI, endpoint: str, service_name: str, *, exporter: SpanExporter | None = None
) -> Tracing:
    """Trace the requests of an app; call it before the app serves, and `shutdown` the result when it is done.

    ConfigError if the extra is not installed, or if the endpoint is no URL. `exporter` replaces OTLP.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"serving.tracing_endpoint: got {endpoint!r}; give the collector's URL, such as http://127.0.0.1:4318"
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
        from opentelemetry.metrics import NoOpMeterProvider
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            "serving.tracing_endpoint needs OpenTelemetry, which is not installed; "
            "install eagle3-kit[tracing] or set tracing_endpoint to null"
        ) from error
    if exporter is None:
        path = parts.path.rstrip("/")
        url = endpoint if path else f"{endpoint.rstrip('/')}/v1/traces"
        exporter = OTLPSpanExporter(endpoint=url)
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service_name}), shutdown_on_exit=False)
    # Spans are sent by a thread and dropped when the collector cannot keep up: tracing never holds up a request.
    provider.add_span_processor(BatchSpanProcessor(exporter))
    FastAPIInstrumentor.instrument_app(
        app,
        tracer_provider=provider,
        meter_provider=NoOpMeterProvider(),  # the metrics room measures
        excluded_urls=_UNTRACED,
        exclude_spans=["receive", "send"],  # a streamed answer would make one span a chunk
        server_request_hook=lambda span, scope: _remember(span),
    )

    def shutdown() -> None:
        FastAPIInstrumentor.uninstrument_app(app)
        provider.shutdown()

    return Tracing(shutdown)


class Tracing:
    """Tracing of one app that is on."""

    def __init__(self, shutdown: Callable[[], None]) -> None:
        self._shutdown = shutdown

    def shutdown(self) -> None:
        """Send what is left; blocks for a few seconds at most."""
        self._shutdown()


def trace_answers(job: Job, answers: Sequence[Answer]) -> None:
    """Put the outcome of the request in progress on its span; does nothing if it is not traced.

    Names are those of OpenTelemetry's semantic conventions for generative AI; `eagle3.tau` is left out if there was no
    cycle.
    """
    span = _current.get()
    if span is None:
        return
    span.set_attributes(
        {
            "gen_ai.response.model": job.model,
            "gen_ai.response.id": job.answer_id,
            "gen_ai.usage.input_tokens": job.prompt_tokens,
            "gen_ai.usage.output_tokens": sum(len(answer.token_ids) for answer in answers),
            "gen_ai.response.finish_reasons": tuple(answer.finish_reason for answer in answers),
        }
    )
    stats = DecodeStats()
    for answer in answers:
        stats.add(answer.stats)
    if stats.cycles:
        span.set_attribute("eagle3.tau", stats.tau)


def _remember(span: Any) -> None:
    # The hook runs in the request's own context, which its handler and its streamed body inherit.
    _current.set(span)

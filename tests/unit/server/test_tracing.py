"""Optional tracing, with the exporter of the SDK that keeps spans in memory."""

from __future__ import annotations

import sys

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from eagle3.engine.answer import Answer
from eagle3.engine.stats import DecodeStats
from eagle3.errors import ConfigError
from eagle3.server.job import Job
from eagle3.server.tracing import configure_tracing, trace_answers
from tracing_doubles import otlp_collector

SECRET = "the colour of my cat"


def make_app():
    """An app with a plain answer, a streamed one, one that fails, and a probe."""
    app = FastAPI()

    def done(*cycles):
        """As many answers, each with these cycles of two tokens and one more token from the prefill."""
        answers = [
            Answer(
                text=SECRET, token_ids=(1,) * (2 * count + 1), finish_reason="stop", logprobs=None,
                stats=DecodeStats(cycles=count, cycle_tokens=2 * count),
            )
            for count in cycles
        ]  # fmt: skip
        job = Job(
            answer_id="r1", created=0, model="tiny", fingerprint="fp", requests=(), prompt_tokens=7, stream=False,
            include_usage=False, logprobs=False,
        )  # fmt: skip
        trace_answers(job, answers)

    @app.post("/v1/completions")
    async def plain(body: dict):
        done(0)
        return {"text": SECRET}

    @app.post("/v1/chat/completions")
    async def streamed(body: dict):
        async def chunks():
            yield SECRET
            yield "."
            done(3, 1)

        return StreamingResponse(chunks())

    @app.post("/fails")
    async def fails():
        raise RuntimeError("broken")

    @app.get("/ping")
    async def ping():
        return {}

    return app


async def post(app, path):
    """One request with a prompt in its body."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        return await client.post(path, json={"prompt": SECRET})


async def spans_of(path):
    """The spans that a request to a traced app makes."""
    app, exporter = make_app(), InMemorySpanExporter()
    tracing = configure_tracing(app, "http://collector:4318", "chat", exporter=exporter)
    await post(app, path)
    tracing.shutdown()
    return exporter.get_finished_spans()


async def test_streamed_answer_has_one_span_with_the_counts():
    """The span is open until the stream ends, so counts known only then are on it; chunks make no spans."""
    (span,) = await spans_of("/v1/chat/completions")
    assert span.name == "POST /v1/chat/completions"
    assert span.resource.attributes["service.name"] == "chat"
    attributes = dict(span.attributes)
    assert attributes["gen_ai.usage.input_tokens"] == 7
    assert attributes["gen_ai.usage.output_tokens"] == 10
    assert attributes["gen_ai.response.model"] == "tiny"
    assert attributes["gen_ai.response.id"] == "r1"
    assert attributes["gen_ai.response.finish_reasons"] == ("stop", "stop")
    assert attributes["eagle3.tau"] == 2.0


async def test_plain_answer_without_a_cycle_has_no_tau():
    """An acceptance length that does not exist is left out."""
    (span,) = await spans_of("/v1/completions")
    assert span.attributes["gen_ai.usage.output_tokens"] == 1
    assert "eagle3.tau" not in span.attributes


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_no_text_leaves_the_server(path):
    """Neither prompt nor answer is anywhere in a span."""
    (span,) = await spans_of(path)
    assert SECRET not in span.to_json()


async def test_a_failure_is_on_the_span():
    """A crash of a handler marks its span as an error."""
    (span,) = await spans_of("/fails")
    assert not span.status.is_ok
    assert span.attributes.get("http.status_code", span.attributes.get("http.response.status_code")) == 500


async def test_probes_are_not_traced():
    """Health checks, which come every few seconds, make no spans."""
    app, exporter = make_app(), InMemorySpanExporter()
    tracing = configure_tracing(app, "http://collector:4318", "chat", exporter=exporter)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://server") as client:
        assert (await client.get("/ping")).status_code == 200
    tracing.shutdown()
    assert exporter.get_finished_spans() == ()


async def test_without_tracing_annotations_do_nothing():
    """The server annotates always; an app that is not traced answers the same."""
    response = await post(make_app(), "/v1/completions")
    assert response.json() == {"text": SECRET}


async def test_apps_do_not_share_tracing():
    """Spans of one app do not reach the exporter of another."""
    traced, other, exporter = make_app(), make_app(), InMemorySpanExporter()
    tracing = configure_tracing(traced, "http://collector:4318", "chat", exporter=exporter)
    await post(other, "/v1/completions")
    tracing.shutdown()
    assert exporter.get_finished_spans() == ()


async def test_spans_reach_a_collector():
    """Over real HTTP, OTLP arrives at the collector's standard path with the service's name in it."""
    with otlp_collector() as (url, received):
        app = make_app()
        tracing = configure_tracing(app, url, "chat-service")
        await post(app, "/v1/completions")
        tracing.shutdown()
    ((path, resource, attributes),) = received
    assert path == "/v1/traces"
    assert resource["service.name"] == "chat-service"
    assert attributes["gen_ai.response.model"] == "tiny"


@pytest.mark.parametrize("endpoint", ["collector:4318", "grpc://collector:4317", "", "http://"])
def test_refuses_endpoints(endpoint):
    """Anything but an HTTP URL is refused with an example of what is allowed."""
    with pytest.raises(ConfigError, match=r"tracing_endpoint: got .* such as http"):
        configure_tracing(FastAPI(), endpoint, "chat")


def test_missing_package_names_the_extra(monkeypatch):
    """Without OpenTelemetry the error says what to install."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"eagle3-kit\[tracing\]"):
        configure_tracing(FastAPI(), "http://collector:4318", "chat")

"""What the whole server tells Prometheus, CloudWatch and a collector of traces, over real sockets."""

from __future__ import annotations

import socket
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from eagle3.errors import ConfigError
from metrics_doubles import check_emf
from server_doubles import ScriptedEngine
from serving_doubles import GOOD, make_server, running_server
from tracing_doubles import otlp_collector


@pytest.fixture
def agent():
    """A CloudWatch agent: gives its address and the lines that came."""
    lines: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def collect():
            connection, _ = listener.accept()
            with connection, connection.makefile("r", encoding="utf-8") as stream:
                lines.extend(line.rstrip("\n") for line in stream)

        thread = threading.Thread(target=collect, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", lines, thread


async def samples_of(client):
    """Sample name → sum over its labels, from a scrape."""
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


async def test_prometheus_sees_requests_tokens_and_refusals():
    """A scrape after two answers and one refusal counts them, with the engine's own tokens."""
    async with running_server(ScriptedEngine()) as running:
        before = (await samples_of(running.client))["eagle3_output_tokens_total"]
        for _ in range(2):
            assert (await running.client.post("/v1/completions", json=GOOD)).status_code == 200
        assert (await running.client.post("/v1/completions", json={**GOOD, "max_tokens": 0})).status_code == 400
        samples = await samples_of(running.client)
    assert samples["eagle3_requests_total"] == 2
    assert samples["eagle3_requests_rejected_total"] == 1
    assert samples["eagle3_output_tokens_total"] - before == 16
    assert samples["eagle3_e2e_latency_ms_count"] == 2
    assert samples["eagle3_time_to_first_token_ms_count"] == 2
    assert samples["eagle3_engine_ready"] == 1


async def test_cloudwatch_gets_records_while_serving_and_at_the_end(agent):
    """The agent receives valid records with the queue in each; the answer's latency is in exactly one of them."""
    endpoint, lines, thread = agent
    metrics = {
        "emf": "agent", "agent_endpoint": endpoint, "interval_s": 0.1, "dimensions": {"EndpointName": "chat"},
    }  # fmt: skip
    async with running_server(ScriptedEngine(), metrics=metrics) as running:
        assert (await running.client.post("/v1/completions", json=GOOD)).status_code == 200
    thread.join(10)
    documents = [check_emf(line) for line in lines]
    assert documents
    assert {document["QueueDepth"] for document in documents} == {0}
    assert {document["EndpointName"] for document in documents} == {"chat"}
    assert sum("E2ELatencyMs" in document for document in documents) == 1


async def test_cloudwatch_gets_the_queue_while_the_engine_loads(agent):
    """Before the engine is ready there are records with QueueDepth, so that an autoscaler never looks at nothing."""
    endpoint, lines, thread = agent
    metrics = {"emf": "agent", "agent_endpoint": endpoint, "interval_s": 0.05}
    async with running_server(ScriptedEngine(ready=False), ready=False, metrics=metrics):
        pass
    thread.join(10)
    assert [check_emf(line)["QueueDepth"] for line in lines]


@pytest.mark.parametrize("stream", [False, True])
async def test_traces_reach_the_collector(stream):
    """One span a request, with the counts that the client sees, streamed or not, and without a word of text."""
    with otlp_collector() as (url, received):
        async with running_server(ScriptedEngine(), serving={"tracing_endpoint": url}) as running:
            body = {**GOOD, "prompt": "a secret", "stream": stream}
            response = await running.client.post("/v1/completions", json=body)
            assert response.status_code == 200
            await running.client.get("/health")
            await running.client.get("/metrics")
    ((_, resource, attributes),) = received
    assert resource["service.name"] == "eagle3"
    assert attributes["http.route"] == "/v1/completions"
    assert attributes["gen_ai.usage.output_tokens"] == 8
    assert attributes["gen_ai.usage.input_tokens"] > 0
    assert "secret" not in str(attributes)


@pytest.mark.parametrize(
    "settings",
    [
        {"metrics": {"emf": "stdout", "namespace": "AWS/Mine"}},
        {"metrics": {"emf": "agent", "agent_endpoint": "nowhere"}},
        {"metrics": {"emf": "stdout", "dimensions": {"Name": ""}}},
        {"serving": {"tracing_endpoint": "nowhere"}},
    ],
)
async def test_what_cannot_work_is_refused_before_the_server_starts(settings):
    """Settings that CloudWatch or the collector would refuse are errors of the config, not of a request later."""
    from eagle3.config.deployment import parse_config

    with pytest.raises(ConfigError):
        make_server(ScriptedEngine(), parse_config(settings, source="test"))

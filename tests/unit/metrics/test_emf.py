"""CloudWatch records."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from aws_embedded_metrics.config import get_config

from eagle3.errors import ConfigError
from eagle3.metrics.emf import MAX_RECORD_BYTES, EmfFormat
from eagle3.metrics.registry import IntervalReport
from eagle3.metrics.totals import Rates
from metrics_doubles import check_emf, settings

NOW = datetime.now(UTC)
FULL = IntervalReport(
    rates=Rates(
        tokens_per_second=120.5, acceptance_rate=2.25, draft_latency_ms=6.0, verify_latency_ms=31.5,
        acceptance_by_depth=(0.7, 0.4),
    ),
    queue_depth=3, gpu_memory_mb=2048.0, e2e_ms=(400.0, 512.25), ttft_ms=(50.0,),
    rejected={"queue_full": 2, "too_long": 1},
)  # fmt: skip


def records(report, **values):
    """Records under settings, each checked against the published rules."""
    return [check_emf(text) for text in EmfFormat(settings(**values)).records(report, NOW)]


def test_full_report():
    """Every metric of the catalogue is there with its unit, at one-second resolution, with the given dimensions."""
    main, *by_reason = records(
        FULL, dimensions={"EndpointName": "chat", "VariantName": "blue"}, namespace="Team/Eagle3"
    )
    (directive,) = main["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Team/Eagle3"
    assert directive["Dimensions"] == [["EndpointName", "VariantName"]]
    assert (main["EndpointName"], main["VariantName"]) == ("chat", "blue")
    assert main["_aws"]["Timestamp"] == round(NOW.timestamp() * 1000)
    assert main["_aws"]["LogGroupName"] == "/Team/Eagle3/metrics"
    assert {metric["Name"]: (metric["Unit"], main[metric["Name"]]) for metric in directive["Metrics"]} == {
        "QueueDepth": ("Count", 3), "RejectedRequests": ("Count", 3), "TokensPerSecond": ("Count/Second", 120.5),
        "AcceptanceRate": ("None", 2.25), "DraftLatencyMs": ("Milliseconds", 6.0),
        "VerifyLatencyMs": ("Milliseconds", 31.5), "GPUMemoryUsedMB": ("Megabytes", 2048.0),
        "AcceptanceByDepth1": ("None", 0.7), "AcceptanceByDepth2": ("None", 0.4),
        "E2ELatencyMs": ("Milliseconds", [400.0, 512.25]), "TimeToFirstTokenMs": ("Milliseconds", 50.0),
    }  # fmt: skip
    assert {metric["StorageResolution"] for metric in directive["Metrics"]} == {1}
    assert [(document["Reason"], document["RejectedRequests"]) for document in by_reason] == [
        ("queue_full", 2), ("too_long", 1),
    ]  # fmt: skip
    assert by_reason[0]["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["EndpointName", "VariantName", "Reason"]]


def test_idle_report_still_has_the_queue():
    """With nothing to tell, the queue and the rejections are sent as 0 and everything else is left out."""
    (document,) = records(IntervalReport(rates=Rates(), queue_depth=0))
    assert {key: value for key, value in document.items() if key != "_aws"} == {"QueueDepth": 0, "RejectedRequests": 0}
    assert document["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[]]


def test_more_than_a_hundred_values_go_into_further_records():
    """250 and 120 latencies arrive complete, at most 100 a record, and single values in one record only."""
    e2e = tuple(float(number) for number in range(250))
    ttft = tuple(float(number) for number in range(120))
    documents = records(IntervalReport(rates=Rates(), queue_depth=1, e2e_ms=e2e, ttft_ms=ttft))
    assert len(documents) == 3

    def gather(name):
        values = []
        for document in documents:
            value = document.get(name, [])
            values += value if isinstance(value, list) else [value]
        return values

    assert gather("E2ELatencyMs") == list(e2e)
    assert gather("TimeToFirstTokenMs") == list(ttft)
    assert gather("QueueDepth") == [1]


def test_the_largest_report_fits():
    """The deepest tree, 29 dimensions at their limit and full lists of latencies fit a datagram."""
    dimensions = {f"Dimension{number:02}" + "n" * 100: "v" * 180 for number in range(29)}
    report = IntervalReport(
        rates=Rates(
            tokens_per_second=1234.5678, acceptance_rate=12.3456, draft_latency_ms=123.4567,
            verify_latency_ms=123.4567, acceptance_by_depth=(0.1234,) * 32,
        ),
        queue_depth=1000, gpu_memory_mb=123456.7, e2e_ms=(599_999.123,) * 300, ttft_ms=(599_999.123,) * 300,
    )  # fmt: skip
    texts = EmfFormat(settings(dimensions=dimensions)).records(report, NOW)
    for text in texts:
        check_emf(text)
    assert max(len(text) for text in texts) < MAX_RECORD_BYTES


def test_environment_of_the_library_changes_nothing(monkeypatch):
    """Even if the library read from its environment that metric data is to be left out, records carry it."""
    monkeypatch.setattr(get_config(), "disable_metric_extraction", True)
    monkeypatch.setattr(get_config(), "namespace", "Elsewhere")
    (document,) = records(IntervalReport(rates=Rates(), queue_depth=0))
    assert document["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Eagle3"


@pytest.mark.parametrize("namespace", ["Eagle3", "Team/Eagle3-prod_1.2", "a#b:c"])
def test_accepts_namespaces(namespace):
    """What CloudWatch allows passes."""
    assert json.loads(
        EmfFormat(settings(namespace=namespace)).records(IntervalReport(rates=Rates(), queue_depth=0), NOW)[0]
    )


@pytest.mark.parametrize("namespace", ["AWS/SageMaker", "aws/eagle3", "two words", "käse", " "])
def test_refuses_namespaces(namespace):
    """What CloudWatch drops silently is refused at the start, with the setting named."""
    with pytest.raises(ConfigError, match=r"metrics\.namespace"):
        EmfFormat(settings(namespace=namespace))


@pytest.mark.parametrize(
    ("dimensions", "complaint"),
    [
        ({f"D{number}": "v" for number in range(30)}, "at most 29"),
        ({"": "v"}, "1 to 250"),
        ({"Name": ""}, "1 to 1024"),
        ({"Name": "  "}, "1 to 1024"),
        ({":Name": "v"}, "do not begin with ':'"),
        ({"Näme": "v"}, "ASCII"),
        ({"Name": "ü"}, "ASCII"),
        ({"Name": "a\nb"}, "control characters"),
        ({"N" * 251: "v"}, "1 to 250"),
        ({"Name": "v" * 1025}, "1 to 1024"),
        ({"Reason": "v"}, "another name"),
        ({"_aws": "v"}, "another name"),
        ({"N" * 250 + str(number): "v" for number in range(3)}, "1 to 250"),
        ({f"Name{number}": "v" * 1000 for number in range(20)}, "shorten"),
    ],
)
def test_refuses_dimensions(dimensions, complaint):
    """Dimensions that CloudWatch would refuse, or that do not fit, are refused at the start."""
    with pytest.raises(ConfigError, match=complaint):
        EmfFormat(settings(dimensions=dimensions))

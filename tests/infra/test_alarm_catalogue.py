"""The catalogue of alarms: complete, consistent with the metrics that exist, and decided about silence."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from eagle3.metrics.catalogue import CATALOGUE
from infra.observability.alarm_catalogue import ALARMS, BUDGET, alarms_of, expression_of, number, runbook_url
from infra.observability.watched import AWS_METRICS, Watched
from infra.settings.alarms import AlarmSettings
from operations_doubles import CLUSTER, ENDPOINT

RUNTIME_METRICS = {entry.cloudwatch: entry for entry in CATALOGUE if entry.cloudwatch}
SETTINGS = AlarmSettings()
NAMES = {alarm.name for alarm in ALARMS}


def named(name):
    """The alarm of a name."""
    [alarm] = [alarm for alarm in ALARMS if alarm.name == name]
    return alarm


def test_names_are_kebab_case_and_unique():
    """A name is the file name of a runbook."""
    assert len(NAMES) == len(ALARMS)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in NAMES | {BUDGET})


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_every_metric_exists(alarm):
    """An alarm watches a metric of the runtime's catalogue, or one of AWS under the dimensions AWS gives it."""
    complete = {
        "endpoint": ENDPOINT,
        "cluster": CLUSTER,
    }
    for metric in alarm.metrics:
        if metric.namespace is None:
            assert metric.name in RUNTIME_METRICS
            assert metric.of == "serving"
        else:
            watched = complete["endpoint" if metric.of in {"endpoint", "variant"} else "cluster"]
            assert tuple(watched.dimensions(metric.of)) == AWS_METRICS[metric.namespace, metric.name]


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_periods_are_what_cloudwatch_takes(alarm):
    """10, 20, 30 or a multiple of 60 seconds; below 60 only for the runtime's, stored by the second."""
    periods, datapoints = (int(number(value, SETTINGS)) for value in (alarm.periods, alarm.datapoints))
    assert 1 <= datapoints <= periods
    for metric in alarm.metrics:
        assert metric.period_s in {10, 20, 30} or metric.period_s % 60 == 0
        assert metric.period_s >= 60 or metric.namespace is None
        assert metric.period_s * periods <= 86_400


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_silence_is_decided_on(alarm):
    """An alarm that watches for silence breaches on it; every other leaves silence to that one."""
    assert alarm.missing == ("breaching" if alarm.name == "no-data" else "notBreaching")


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_expression_uses_exactly_its_metrics(alarm):
    """Metric math names every metric of the alarm and nothing else; without an expression there is one metric."""
    watched = ENDPOINT if "endpoint" in alarm.needs else CLUSTER
    expression = expression_of(alarm, SETTINGS, watched)
    if expression is None:
        assert len(alarm.metrics) == 1
        return
    used = set(re.findall(r"\b[a-z]\w*\b", expression))
    assert used == {metric.id for metric in alarm.metrics}
    assert "{" not in expression


def test_silence_is_watched_where_something_always_reports():
    """QueueDepth is never absent, so no-data counts its reports; where replicas go to zero, silence means nothing."""
    alarm = named("no-data")
    assert RUNTIME_METRICS[alarm.metrics[0].name].absent == "never"
    assert alarm.metrics[0].statistic == "SampleCount"
    assert alarm in alarms_of(ENDPOINT)
    assert alarm not in alarms_of(Watched(endpoint_name="e", always_on=False, asynchronous=True))


def test_latency_line_is_half_a_second():
    """The p99 of the end-to-end latency may be 500 ms."""
    alarm = named("e2e-latency-p99")
    assert (alarm.metrics[0].name, alarm.metrics[0].statistic) == ("E2ELatencyMs", "p99")
    assert (alarm.comparison, number(alarm.threshold, SETTINGS)) == ("GreaterThanThreshold", 500.0)


def test_an_endpoint_and_a_cluster_have_their_alarms():
    """Each stack gets the alarms that its parts can raise, and no other."""
    runtime = {"e2e-latency-p99", "acceptance-rate-low", "queue-growing", "gpu-memory-high", "no-data"}
    assert {alarm.name for alarm in alarms_of(ENDPOINT)} == runtime | {"endpoint-5xx"}
    assert {alarm.name for alarm in alarms_of(CLUSTER)} == runtime | {
        "load-balancer-5xx",
        "spot-interruptions",
        "interruption-queue-stuck",
        "pods-unschedulable",
        "bootstrap-failed",
    }


def test_a_foreign_container_is_watched_by_what_sagemaker_measures():
    """A container that does not report the runtime's metrics gets none of their alarms, but still one on latency."""
    foreign = {alarm.name for alarm in alarms_of(Watched(endpoint_name="e", runtime_metrics=False, gpu_memory_mib=1))}
    assert foreign == {"model-latency-p99", "endpoint-5xx"}


def test_every_alarm_can_be_raised_somewhere():
    """No alarm needs facts that exclude each other."""
    asynchronous = Watched(endpoint_name="e", runtime_metrics=False, asynchronous=True)
    found = [*alarms_of(ENDPOINT), *alarms_of(CLUSTER), *alarms_of(asynchronous)]
    assert {alarm.name for alarm in found} == NAMES


def test_rollouts_end_on_latency_and_errors():
    """A new version goes back on latency or errors, and for nothing that the old one could have caused as well."""
    assert {alarm.name for alarm in ALARMS if alarm.rollback} == {
        "e2e-latency-p99",
        "model-latency-p99",
        "endpoint-5xx",
    }


def test_runbook_address():
    """An alarm's runbook lies below the base address, with or without a slash at its end."""
    settings = AlarmSettings(runbook_base_url="https://example.org/books/")
    assert runbook_url("no-data", settings) == "https://example.org/books/no-data.md"


@pytest.mark.parametrize(
    "values",
    [
        {"emails": ["nobody"]},
        {"webhooks": ["http://example.org"]},
        {"runbook_base_url": "ftp://example.org"},
        {"acceptance_rate": 1.0},
        {"e2e_p99_ms": 0},
        {"gpu_memory_share": 1.5},
        {"log_retention_days": 364},
        {"unknown": 1},
    ],
)
def test_settings_refuse(values):
    """Addresses that cannot be told, lines that mean nothing and unknown keys are refused."""
    with pytest.raises(ValidationError):
        AlarmSettings.model_validate(values)


def test_a_stack_serves_by_an_endpoint_or_a_cluster():
    """Neither, or both, is a programmer's mistake."""
    with pytest.raises(AssertionError, match="serves"):
        Watched()
    with pytest.raises(AssertionError, match="serves"):
        Watched(endpoint_name="e", cluster_name="c")
    with pytest.raises(AssertionError, match="has no spot_rule"):
        ENDPOINT.dimensions("spot_rule")

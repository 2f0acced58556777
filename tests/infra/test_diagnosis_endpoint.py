"""Alarms of an endpoint: the injected cause is the one that is named."""

from __future__ import annotations

import pytest

from diagnosis_doubles import (
    account,
    activity,
    ago,
    causes,
    diagnosed,
    endpoint,
    refusal,
    scalable,
    series,
    write_log,
)

SITE = "eagle3-dev-small"
GROUP = f"/aws/sagemaker/Endpoints/{SITE}-endpoint"
DESCRIBE = ("sagemaker", "describe_endpoint")
METRICS = ("cloudwatch", "get_metric_data")
TARGETS = ("application-autoscaling", "describe_scalable_targets")
ACTIVITIES = ("application-autoscaling", "describe_scaling_activities")
QUOTAS = ("service-quotas", "list_service_quotas")
CONFIG = ("sagemaker", "describe_endpoint_config")


def found(alarm, answers, *, lines=None, minutes=10, site=SITE):
    """Causes that a diagnosis names, with the alarm on for ten minutes."""
    with account(answers, raised=(alarm, site, minutes)):
        if lines is not None:
            write_log(GROUP, *lines)
        report = diagnosed(alarm, site=site)
    assert not report.evidence.not_seen, report.evidence.not_seen
    return causes(report)


HEALTHY = {DESCRIBE: endpoint(), TARGETS: scalable(), METRICS: series()}
DEPTHS = {f"AcceptanceByDepth{depth}": [0.0] * 30 for depth in range(2, 6)}

ACCEPTANCE = {
    "the draft is of another target": series(AcceptanceRate=[1.01] * 30, AcceptanceByDepth1=[0.01] * 30),
    "the tree is deeper than it pays": series(AcceptanceRate=[1.25] * 30, AcceptanceByDepth1=[0.24] * 30, **DEPTHS),
    "requests unlike the draft's training": series(
        AcceptanceRate=[1.6] * 10 + [1.25] * 20, AcceptanceByDepth1=[0.15] * 30, AcceptanceByDepth2=[0.08] * 30
    ),
}


@pytest.mark.parametrize("cause", ACCEPTANCE)
def test_low_acceptance(cause):
    """Where nothing is accepted the draft is another's; where depth 2 does not follow, the tree; else the requests."""
    assert found("acceptance-rate-low", HEALTHY | {METRICS: ACCEPTANCE[cause]}) == [cause]


def test_low_acceptance_of_a_new_version():
    """Acceptance that fell right after a change of the endpoint is the new version's draft."""
    low = series(AcceptanceRate=[1.2] * 30, AcceptanceByDepth1=[0.1] * 30)
    assert found("acceptance-rate-low", HEALTHY | {METRICS: low, DESCRIBE: endpoint(changed=25)}) == [
        "the new version's draft"
    ]


def test_acceptance_above_the_line_has_no_cause():
    """While tau is above the alarm's line nothing is named."""
    assert found("acceptance-rate-low", HEALTHY | {METRICS: series(AcceptanceRate=[2.0] * 30)}) == []


WAITING = series(QueueDepth=[12.0] * 30, TokensPerSecond=[90.0] * 30)
NO_ROOM = activity("Failed", "Failed to set desired instance count. Reason: insufficient capacity for ml.g5.xlarge")
QUEUE = {
    "the engine is stalled": {METRICS: series(QueueDepth=[12.0] * 30, TokensPerSecond=[0.0] * 30)},
    "AWS has no instance of this type": {
        ACTIVITIES: {"ScalingActivities": [NO_ROOM]}, DESCRIBE: endpoint(instances=1, wanted=2),
    },
    "a quota of the account": {
        ACTIVITIES: {"ScalingActivities": [activity("Failed", "ResourceLimitExceeded: account-level service limit")]},
    },
    "autoscaling may not act": {
        ACTIVITIES: {"ScalingActivities": [activity("Failed", "AccessDenied: not authorized to perform it")]},
    },
    "autoscaling is switched off": {TARGETS: scalable(suspended=True)},
    "autoscaling is at its maximum": {DESCRIBE: endpoint(instances=4, wanted=4)},
    "instances are starting": {DESCRIBE: endpoint(instances=1, wanted=3)},
}  # fmt: skip


@pytest.mark.parametrize("cause", QUEUE)
def test_queue(cause):
    """A queue grows for one reason, and that reason is named alone."""
    assert found("queue-growing", HEALTHY | {METRICS: WAITING} | QUEUE[cause]) == [cause]


def test_queue_of_an_engine_that_ends():
    """An engine that is started again explains the queue, whatever autoscaling does meanwhile."""
    lines = ["2026-01-01 WARNING eagle3: the engine ended with exit code -9; it is started again in 1 s"]
    answers = HEALTHY | {METRICS: WAITING, DESCRIBE: endpoint(instances=4, wanted=4)}
    assert found("queue-growing", answers, lines=lines) == ["the engine ends again and again"]


def test_queue_at_a_quota():
    """A quota below autoscaling's maximum is the cause once it is reached, without any activity that says so."""
    answers = HEALTHY | {
        METRICS: WAITING, DESCRIBE: endpoint(instances=2, wanted=2),
        CONFIG: {"ProductionVariants": [{"InstanceType": "ml.g5.xlarge"}]},
        QUOTAS: {"Quotas": [{"QuotaName": "ml.g5.xlarge for endpoint usage", "Value": 2.0}]},
    }  # fmt: skip
    assert found("queue-growing", answers) == ["a quota of the account"]


def rose(before, after):
    return [before] * 35 + [after] * 25


LATE = {"E2ELatencyMs_p99": rose(300.0, 900.0), "E2ELatencyMs_p50": rose(150.0, 400.0)}
FLAT = {"QueueDepth": [0.0] * 60, "AcceptanceRate": [2.0] * 60, "VerifyLatencyMs": [30.0] * 60}
LATENCY = {
    "requests wait": LATE | FLAT | {"QueueDepth": rose(0.0, 6.0), "TimeToFirstTokenMs_p99": rose(50.0, 500.0)},
    "tau fell": LATE | FLAT | {"AcceptanceRate": rose(2.2, 1.1)},
    "larger batches or longer contexts": LATE | FLAT | {"VerifyLatencyMs": rose(30.0, 60.0)},
    "long prompts": LATE | FLAT | {"TimeToFirstTokenMs_p99": rose(50.0, 500.0)},
    "longer answers": LATE | FLAT | {"TimeToFirstTokenMs_p99": [50.0] * 60},
}


@pytest.mark.parametrize("cause", LATENCY)
def test_latency(cause):
    """What changed in the same minutes explains late answers; if nothing did, they are longer."""
    assert found("e2e-latency-p99", HEALTHY | {METRICS: series(**LATENCY[cause])}, minutes=20) == [cause]


def test_latency_of_a_new_version():
    """A deployment under way comes before whatever else changed with it."""
    answers = HEALTHY | {METRICS: series(**LATENCY["requests wait"]), DESCRIBE: endpoint("Updating", changed=3)}
    assert found("e2e-latency-p99", answers, minutes=20) == ["the new version"]


def test_steady_latency_has_no_cause():
    """Where nothing changed nothing is named."""
    steady = {name: values[:1] * 60 for name, values in LATENCY["requests wait"].items()}
    assert found("e2e-latency-p99", HEALTHY | {METRICS: series(**steady)}, minutes=20) == []


MEMORY = {
    "a leak": [20000.0 + 40 * minute for minute in range(60)],
    "large requests": [20000.0, 20000.0, 23500.0, 23600.0, 20000.0, 23500.0, 20100.0, 23400.0] * 5,
    "full from the start": [23500.0] * 40,
}


@pytest.mark.parametrize("cause", MEMORY)
def test_memory(cause):
    """Memory that only rises leaks; that comes and goes belongs to requests; that is flat was full from the start."""
    assert found("gpu-memory-high", HEALTHY | {METRICS: series(GPUMemoryUsedMB=MEMORY[cause])}) == [cause]


def test_memory_that_ran_out():
    """What the log says comes before what the course looks like."""
    answers = HEALTHY | {METRICS: series(GPUMemoryUsedMB=MEMORY["full from the start"])}
    lines = ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"]
    assert found("gpu-memory-high", answers, lines=lines)[0] == "the GPU has run out of memory"


ABSENT = refusal("ValidationException", 'Could not find endpoint "eagle3-dev-small-endpoint".')
PING = "The primary container for production variant AllTraffic did not pass the ping health check."
SILENCE = {
    "the endpoint is gone": ({DESCRIBE: ABSENT}, None),
    "the container ends before its first line": ({DESCRIBE: endpoint("Failed", failure=PING)}, ()),
    "the endpoint failed": ({DESCRIBE: endpoint("Failed", failure=PING)}, ["ERROR the weights have no config.json"]),
    "the first deployment is under way": ({DESCRIBE: endpoint("Creating", instances=0)}, None),
    "reports are switched off": ({}, ["INFO ready"]),
}


@pytest.mark.parametrize("cause", SILENCE)
def test_silence(cause):
    """No data means a missing, failed or starting endpoint, or one that serves and does not report."""
    answers, lines = SILENCE[cause]
    assert found("no-data", HEALTHY | answers, lines=lines) == [cause]


def test_silence_of_a_group_that_takes_no_metrics():
    """A log group of the class Infrequent Access takes no embedded metrics."""
    groups = {"logGroups": [{"logGroupName": GROUP, "logGroupClass": "INFREQUENT_ACCESS"}]}
    answers = {("logs", "describe_log_groups"): groups, ("logs", "filter_log_events"): {"events": []}}
    assert found("no-data", HEALTHY | answers) == ["the log group takes no metrics"]


ERRORS = {
    "the endpoint failed": ({DESCRIBE: endpoint("Failed", failure="the container crashed")}, None),
    "the GPU has run out of memory": ({}, ["ERROR CUDA out of memory"]),
    "the container was killed": ({}, ["ERROR worker killed by signal 9"]),
    "the engine ends again and again": ({}, ["WARNING the engine did not answer; it is started again in 2 s"]),
    "the new version": ({DESCRIBE: endpoint("RollingBack", changed=4)}, None),
    "answers longer than 60 s": ({METRICS: series(ModelLatency=[59.5e6] * 30)}, None),
    "instances go while they serve": (
        {ACTIVITIES: {"ScalingActivities": [activity("Successful", "Setting desired 1: AlarmLow", 12)]}}, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("cause", ERRORS)
def test_server_errors(cause):
    """Server errors have the cause that the log, the deployment or autoscaling shows."""
    answers, lines = ERRORS[cause]
    assert found("endpoint-5xx", HEALTHY | answers, lines=lines) == [cause]


SLOW = {
    "the new version": ({DESCRIBE: endpoint("Updating", changed=3)}, None),
    "the cache is full": ({}, ["WARNING sequence group is preempted by recompute"]),
    "autoscaling is at its maximum": ({DESCRIBE: endpoint(instances=4, wanted=4)}, None),
    "the engine ends again and again": ({}, ["ERROR EngineDeadError: see the stack trace above"]),
}


@pytest.mark.parametrize("cause", SLOW)
def test_model_latency(cause):
    """The container of somebody else is judged by its log, its deployment and its number."""
    answers, lines = SLOW[cause]
    assert found("model-latency-p99", HEALTHY | answers, lines=lines) == [cause]


ASLEEP = {DESCRIBE: endpoint(instances=0, wanted=0)}
BACKLOG = {
    "the first instance was not started": ASLEEP,
    "AWS has no instance of this type": ASLEEP | {ACTIVITIES: {"ScalingActivities": [NO_ROOM]}},
    "instances are starting": {DESCRIBE: endpoint(instances=0, wanted=1)},
    "autoscaling is at its maximum": {DESCRIBE: endpoint(instances=4, wanted=4)},
    "the endpoint failed": {DESCRIBE: endpoint("Failed", failure="no such model")},
}


@pytest.mark.parametrize("cause", BACKLOG)
def test_backlog(cause):
    """Requests wait because nothing woke up, nothing can be had, something starts, or all run already."""
    answers = HEALTHY | {METRICS: series(ApproximateAgeOfOldestRequest=[1200.0] * 30)} | BACKLOG[cause]
    assert found("async-backlog", answers) == [cause]


def test_findings_carry_values_and_times():
    """A finding says where, what, which value and when; the report as JSON has all of it."""
    with account(HEALTHY | {METRICS: WAITING, DESCRIBE: endpoint(changed=30)}):
        report = diagnosed("queue-growing").as_json()
    depth = next(one for one in report["findings"] if one["what"].startswith("QueueDepth"))
    assert depth["source"] == "CloudWatch"
    assert "newest 12" in depth["value"]
    assert depth["when"] == ago(1).isoformat(timespec="seconds")
    assert any(one["value"] == "last changed" for one in report["findings"])

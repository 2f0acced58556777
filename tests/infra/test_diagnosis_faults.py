"""What cannot be looked at is said with its reason, the rest goes on, and nothing but reading is done."""

from __future__ import annotations

import json
from datetime import timedelta

import boto3
import botocore.awsrequest
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from diagnosis_doubles import (
    REGION,
    SESSION,
    account,
    causes,
    client,
    context,
    diagnosed,
    refusal,
    series,
)
from infra.diagnosis.aws_reader import READING, READING_TOO, AwsReader, UnreadableError
from infra.diagnosis.evidence import Evidence
from infra.diagnosis.rules import EFFECTS, RULES
from infra.observability.alarm_catalogue import ALARMS, BUDGET

ALL = [*(alarm.name for alarm in ALARMS), BUDGET]
WRITES = {"tag_", "put_", "create_", "start_build", "delete_", "update_", "register_", "send_", "receive_", "stop_"}


@pytest.mark.parametrize("alarm", ALL)
def test_only_reads(alarm):
    """Every call of every diagnosis begins with a reading verb, but for the query of logs that IAM calls reading."""
    with account() as calls:
        diagnosed(alarm)
    assert calls
    for service, operation in calls:
        assert operation.startswith(READING) or (service, operation) in READING_TOO
        assert (service, operation) == ("logs", "start_query") or not operation.startswith(tuple(WRITES))


def test_refuses_to_write():
    """The reader itself refuses an operation that is not a reading one."""
    with account(), pytest.raises(AssertionError, match="does not only read"):
        AwsReader(session=SESSION, region=REGION).read("sqs", "receive_message", QueueUrl="q")


@pytest.mark.parametrize("alarm", ALL)
def test_nothing_there_is_no_fault(alarm):
    """In an account without the stack every diagnosis ends, sees that nothing is there, and invents nothing odd."""
    with account():
        report = diagnosed(alarm)
    assert report.evidence.findings
    assert all("not understood" not in one.reason for one in report.evidence.not_seen)
    assert len(report.causes) <= 2


DENIED = refusal(
    "AccessDeniedException", "User: arn:aws:iam::1:user/u is not authorized to perform: sagemaker:DescribeEndpoint on r"
)


def test_missing_permission():
    """A denied call is named by its permission; the other sources are looked at and their cause found."""
    stalled = series(QueueDepth=[9.0] * 30, TokensPerSecond=[0.0] * 30)
    with account({("sagemaker", "describe_endpoint"): DENIED, ("cloudwatch", "get_metric_data"): stalled}):
        report = diagnosed("queue-growing")
    reasons = {one.source: one.reason for one in report.evidence.not_seen}
    assert (
        "missing permission sagemaker:DescribeEndpoint (AccessDeniedException)"
        in reasons["SageMaker describe_endpoint"]
    )
    assert causes(report) == ["the engine is stalled"]


@pytest.mark.parametrize("alarm", ALL)
def test_everything_denied(alarm):
    """Without any permission a diagnosis still ends, with a reason for each source and no cause."""
    with account() as calls:
        diagnosed(alarm)
    answers = {key: refusal("AccessDenied", "denied") for key in calls}
    with account(answers):
        report = diagnosed(alarm)
    assert report.causes == ()
    assert report.evidence.facts == ()
    assert report.evidence.not_seen
    assert all("missing permission" in one.reason for one in report.evidence.not_seen)
    assert "No cause found: nothing could be looked at." in report.as_text()


SILENT = EndpointConnectionError(endpoint_url="https://x")
REFUSALS = {
    "throttled, 1 attempts (ThrottlingException)": refusal("ThrottlingException", "Rate exceeded"),
    "credentials refused (ExpiredTokenException); renew them": refusal("ExpiredTokenException", "expired"),
    "no credentials for sagemaker": NoCredentialsError(),
    "sagemaker in us-east-1 does not answer (EndpointConnectionError)": SILENT,
    "sagemaker failed, 1 attempts (InternalFailure)": refusal("InternalFailure", "", 500),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_reasons(reason):
    """Throttling, spent credentials, none at all, a silent address and a failing service are told apart."""
    with account({("sagemaker", "describe_endpoint"): REFUSALS[reason]}):
        report = diagnosed("no-data")
    assert [one.reason for one in report.evidence.not_seen] == [reason]
    assert report.evidence.findings


def test_throttled_calls_are_tried_again():
    """A call that is throttled once succeeds at the next attempt."""
    seen = []

    def answer(request, **_):
        seen.append(request.url)
        if len(seen) > 1:
            return None
        body = json.dumps({"__type": "ThrottlingException", "message": "Rate exceeded"}).encode()
        raw = type("Raw", (), {"stream": lambda self, *_, **__: iter([body])})()
        return botocore.awsrequest.AWSResponse(request.url, 400, {"x-amzn-errortype": "ThrottlingException"}, raw)

    with account():
        session = boto3.Session(region_name=REGION)
        session.events.register_first("before-send.sagemaker.*", answer)
        reader = AwsReader(session=session, region=REGION, attempts=2)
        assert reader.read("sagemaker", "list_endpoints")["Endpoints"] == []
    assert len(seen) == 2


def test_silent_service_is_asked_once():
    """A service whose address does not answer is not waited for a second time."""
    down = {("sagemaker", name): SILENT for name in ("list_models", "list_endpoints")}
    with account(down) as calls:
        reader = AwsReader(session=SESSION, region=REGION, attempts=1)
        for operation in ("list_models", "list_endpoints"):
            with pytest.raises(UnreadableError, match="does not answer"):
                reader.read("sagemaker", operation)
    assert len(calls) == 1


def test_time_is_bounded():
    """Past its time a reader makes no call."""
    now = [0.0]
    with account() as calls:
        reader = AwsReader(session=SESSION, region=REGION, deadline_s=10, clock=lambda: now[0])
        now[0] = 11
        with pytest.raises(UnreadableError, match="10 s are over"):
            reader.read("sagemaker", "list_endpoints")
    assert calls == []


def test_answer_of_another_form():
    """An answer that is not understood is said, and takes nothing else with it."""
    with account({("sagemaker", "describe_endpoint"): {"EndpointName": "no status", "EndpointConfigName": "c"}}):
        report = diagnosed("queue-growing")
    [missed] = [one for one in report.evidence.not_seen if one.source == "SageMaker"]
    assert "not understood: KeyError" in missed.reason
    assert any(one.source == "Application Auto Scaling" for one in report.evidence.findings)


def test_real_metrics_of_moto():
    """Values that were put into CloudWatch are found by the alarm's own definition, with their namespace."""
    with account():
        for minute in range(1, 20):
            when = context("no-data").now - timedelta(minutes=minute)
            client("cloudwatch").put_metric_data(
                Namespace="Other",
                MetricData=[
                    {
                        "MetricName": name, "Value": value, "Timestamp": when,
                        "Dimensions": [{"Name": "EndpointName", "Value": "eagle3-dev-small-endpoint"}],
                    }
                    for name, value in (("QueueDepth", 11.0), ("TokensPerSecond", 0.0))
                ],
            )  # fmt: skip
        client("cloudwatch").put_metric_alarm(
            AlarmName="eagle3-dev-small-queue-growing", Namespace="Other", MetricName="QueueDepth", Statistic="Average",
            Period=60, EvaluationPeriods=6, Threshold=1, ComparisonOperator="GreaterThanOrEqualToThreshold",
        )  # fmt: skip
        report = diagnosed("queue-growing")
    assert causes(report) == ["the engine is stalled"]


@pytest.mark.parametrize("alarm", sorted(RULES))
def test_rules_need_evidence(alarm):
    """Without evidence no rule shows anything, and what is an effect is an effect of causes that exist."""
    names = {rule.cause for rule in RULES[alarm]}
    assert all(not rule.shows(Evidence()) for rule in RULES[alarm])
    for (of, effect), faults in EFFECTS.items():
        if of == alarm:
            assert effect in names
            assert faults & names

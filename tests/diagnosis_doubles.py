"""An account to diagnose: moto, with answers of our own where it has none, and every call noted.

What is given for an operation is its answer, or an error that it raises; everything else goes to moto.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import boto3
import botocore.client
from botocore import xform_name
from botocore.exceptions import ClientError
from moto import mock_aws

from infra.diagnosis.aws_reader import AwsReader
from infra.diagnosis.collectors import COLLECTORS
from infra.diagnosis.diagnose import diagnose
from infra.diagnosis.evidence import Context
from infra.diagnosis.page import Page
from infra.diagnosis.request import site_named
from infra.observability.alarm_catalogue import ALARMS, number
from infra.settings.alarms import AlarmSettings

PROJECT = Path(__file__).parents[1]
REGION = "us-east-1"
NOW = datetime.now(UTC).replace(microsecond=0)

# What moto does not have: by default there is nothing.
NOTHING = {
    ("cloudwatch", "describe_alarm_history"): {"AlarmHistoryItems": []},
    ("application-autoscaling", "describe_scaling_activities"): {"ScalingActivities": []},
    ("cloudtrail", "lookup_events"): {"Events": []},
    ("service-quotas", "list_service_quotas"): {"Quotas": []},
    ("service-quotas", "get_service_quota"): {"Quota": {"Value": 384.0}},
    ("ce", "get_cost_and_usage"): {"ResultsByTime": []},
    ("ce", "list_cost_allocation_tags"): {"CostAllocationTags": [{"TagKey": "Project", "Status": "Active"}]},
    ("eks", "list_access_entries"): {
        "accessEntries": [
            "arn:aws:iam::123456789012:role/eagle3-dev-large-karpenter-node",
            "arn:aws:iam::123456789012:role/eagle3-dev-large-bootstrap",
        ]
    },
    ("eks", "list_pod_identity_associations"): {"associations": [{"associationId": "a-1"}]},
    ("eks", "describe_addon"): {"addon": {"status": "ACTIVE"}},
    ("ec2", "describe_spot_price_history"): {"SpotPriceHistory": []},
}


# One session for all tests: what it has read of botocore's models is read once.
SESSION = boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)


def refusal(code, message="", status=400, operation="Operation"):
    """An error as AWS answers it."""
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation
    )


@contextmanager
def account(answers=(), *, raised=None):
    """A local account; `answers` by service and operation. Yields the calls that were made, as they are made.

    `raised` is an alarm and its stack's name, which is on for ten minutes, or for the minutes given as the third.
    """
    given, calls = NOTHING | dict(answers), []
    real = botocore.client.BaseClient._make_api_call

    def called(self, operation, parameters):
        key = (self.meta.service_model.service_name, xform_name(operation))
        calls.append(key)
        answer = given.get(key)
        if callable(answer):
            answer = answer(parameters)
        if isinstance(answer, Exception):
            raise answer
        return real(self, operation, parameters) if answer is None else answer

    environ = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION}
    with (
        mock.patch.dict("os.environ", environ),
        mock_aws(),
        mock.patch.object(botocore.client.BaseClient, "_make_api_call", called),
    ):
        if raised is not None:
            given["cloudwatch", "describe_alarms"] = _raised(*raised)
        yield calls


def client(service):
    return SESSION.client(service)


def context(alarm, *, site=None, since=timedelta(hours=1), aws=True, **more):
    name, stack = site_named(site, alarm)
    reader = AwsReader(session=SESSION, region=REGION, attempts=1) if aws else None
    return Context(alarm=alarm, site=name, stack=stack, since=NOW - since, now=NOW, aws=reader, **more)


def diagnosed(alarm, **more):
    """The report of a diagnosis in the account of the moment."""
    return diagnose(context(alarm, **more), COLLECTORS, Page.read(PROJECT, alarm).steps())


def causes(report):
    return [cause.name for cause in report.causes]


def ago(minutes):
    return NOW - timedelta(minutes=minutes)


def _raised(alarm, site, minutes=10):
    """An answer of describe_alarms: the alarm as it is deployed, on for some minutes."""
    definition = next(one for one in ALARMS if one.name == alarm)
    metric = definition.metrics[0]
    name = f"{site}-{alarm}"
    client("cloudwatch").put_metric_alarm(
        AlarmName=name, Namespace=metric.namespace or "Eagle3", MetricName=metric.name, Statistic="Average",
        Period=max(60, metric.period_s), EvaluationPeriods=int(number(definition.periods, AlarmSettings())),
        Threshold=number(definition.threshold, AlarmSettings()), ComparisonOperator=definition.comparison,
    )  # fmt: skip
    client("cloudwatch").set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="beyond the line")
    [made] = client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    live = made | {"StateTransitionedTimestamp": ago(minutes)}
    return lambda parameters: {"MetricAlarms": [live] if name in parameters["AlarmNames"] else []}


def series(**metrics):
    """An answer of get_metric_data: by metric, values of the minutes up to now, oldest first."""

    def answer(parameters):
        results = []
        for query in parameters["MetricDataQueries"]:
            stat = query["MetricStat"]
            name = stat["Metric"]["MetricName"]
            values = metrics.get(f"{name}_{stat['Stat']}", metrics.get(name, ()))
            step = stat["Period"] / 60
            times = [ago((len(values) - index) * step) for index in range(len(values))]
            results.append({"Id": query["Id"], "Timestamps": times, "Values": list(values)})
        return {"MetricDataResults": results}

    return answer


def endpoint(status="InService", *, instances=1, wanted=1, changed=600, failure=None, message=None):
    """An answer of describe_endpoint; `changed` in minutes ago."""
    variant = {"VariantName": "AllTraffic", "CurrentInstanceCount": instances, "DesiredInstanceCount": wanted}
    if message is not None:
        variant["VariantStatus"] = [{"Status": "Creating", "StatusMessage": message}]
    answer = {
        "EndpointName": "eagle3-dev-small-endpoint", "EndpointConfigName": "configuration", "EndpointStatus": status,
        "ProductionVariants": [variant], "CreationTime": ago(9000), "LastModifiedTime": ago(changed),
    }  # fmt: skip
    return answer | ({"FailureReason": failure} if failure else {})


def activity(status, text, minutes=5):
    return {
        "ActivityId": "1", "ServiceNamespace": "sagemaker", "ResourceId": "r", "ScalableDimension": "d",
        "Description": text, "Cause": "", "StartTime": ago(minutes), "StatusCode": status, "StatusMessage": "",
    }  # fmt: skip


def scalable(most=4, *, suspended=False):
    return {
        "ScalableTargets": [
            {"MinCapacity": 1, "MaxCapacity": most, "SuspendedState": {"DynamicScalingOutSuspended": suspended}}
        ]
    }


def write_log(group, *lines, minutes=5):
    """Lines in a log group of moto, as a container wrote them."""
    logs = client("logs")
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="AllTraffic/i-1")
    if lines:
        moment = int(ago(minutes).timestamp() * 1000)
        logs.put_log_events(
            logGroupName=group, logStreamName="AllTraffic/i-1",
            logEvents=[{"timestamp": moment + index, "message": line} for index, line in enumerate(lines)],
        )  # fmt: skip

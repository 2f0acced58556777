"""Alarms as Terraform gets them, walked to the topic and to the key that encrypts it."""

from __future__ import annotations

import pytest

from infra.constructs.operations.alarms import Alarms, AlarmsProps
from infra.observability.alarm_catalogue import ALARMS, alarms_of, number, runbook_url
from infra.settings.alarms import AlarmSettings
from infra_doubles import SITE, synthesize
from operations_doubles import ALARM_SETTINGS, CLUSTER, CLUSTER_SITE, ENDPOINT, ENDPOINT_SITE, operations

ALL = [(ENDPOINT_SITE, ENDPOINT, alarm) for alarm in alarms_of(ENDPOINT)]
ALL += [(CLUSTER_SITE, CLUSTER, alarm) for alarm in alarms_of(CLUSTER)]


def made(site, alarm):
    """The resource of an alarm."""
    [found] = [
        resource
        for resource in operations().all("aws_cloudwatch_metric_alarm")
        if resource["alarm_name"] == site.named(alarm.name)
    ]
    return found


def test_every_alarm_is_made_once():
    """As many resources as the stacks have alarms."""
    assert len(operations().all("aws_cloudwatch_metric_alarm")) == len(ALL)


@pytest.mark.parametrize(("site", "watched", "alarm"), ALL, ids=lambda value: getattr(value, "name", None))
def test_alarm_reaches_people(site, watched, alarm):
    """Alarm → topic → key: both changes are published, and the key lets CloudWatch of this account use it."""
    stack = operations()
    resource = made(site, alarm)
    assert resource["actions_enabled"] is True
    assert resource["alarm_actions"] == resource["ok_actions"]
    [action] = resource["alarm_actions"]
    topic = stack.follow(action)
    assert topic.kind == "aws_sns_topic"
    assert any(stack.follow(item["topic_arn"]) == topic for item in stack.all("aws_sns_topic_subscription"))
    [policy] = [item for item in stack.all("aws_sns_topic_policy") if stack.follow(item["arn"]) == topic]
    for statements, action_name in (
        (policy.policy(), "sns:Publish"),
        (stack.follow(topic["kms_master_key_id"]).policy(), "kms:GenerateDataKey*"),
    ):
        [allowed] = [
            statement
            for statement in statements
            if statement["Effect"] == "Allow"
            and "cloudwatch.amazonaws.com" in statement["Principal"].get("Service", [])
            and action_name in statement["Action"]
        ]
        assert allowed["Condition"]["StringEquals"]["aws:SourceAccount"] == site.account_id


@pytest.mark.parametrize(("site", "watched", "alarm"), ALL, ids=lambda value: getattr(value, "name", None))
def test_alarm_is_what_the_catalogue_says(site, watched, alarm):
    """Line, periods, silence, metrics and dimensions come from the catalogue; the text leads to the runbook."""
    resource = made(site, alarm)
    assert alarm.meaning in resource["alarm_description"]
    assert runbook_url(alarm.name, ALARM_SETTINGS) in resource["alarm_description"]
    assert len(resource["alarm_description"]) <= 1024
    assert resource["threshold"] == number(alarm.threshold, ALARM_SETTINGS)
    assert resource["evaluation_periods"] == number(alarm.periods, ALARM_SETTINGS)
    assert resource["datapoints_to_alarm"] == number(alarm.datapoints, ALARM_SETTINGS)
    assert resource["treat_missing_data"] == alarm.missing
    if alarm.expression is None:
        assert "metric_query" not in resource.values
        assert ("statistic" in resource.values) != ("extended_statistic" in resource.values)
        got = [(resource.get("namespace"), resource["metric_name"], resource["dimensions"], resource["period"])]
    else:
        assert not {"namespace", "metric_name", "dimensions", "period", "statistic"} & set(resource.values)
        queries = [query["metric"] for query in resource["metric_query"] if "metric" in query]
        got = [(query["namespace"], query["metric_name"], query["dimensions"], query["period"]) for query in queries]
    assert got == [
        (watched.namespace(metric), metric.name, watched.dimensions(metric.of), metric.period_s)
        for metric in alarm.metrics
    ]


@pytest.mark.parametrize(("site", "watched", "alarm"), ALL, ids=lambda value: getattr(value, "name", None))
def test_one_result_of_metric_math(site, watched, alarm):
    """Of the queries of an alarm exactly one returns data: the expression."""
    queries = made(site, alarm).get("metric_query", [])
    assert [query["id"] for query in queries if query.get("return_data")] == (["result"] if queries else [])


def test_percentiles_count_with_few_requests():
    """With a hundred requests a period the p99 alarm is evaluated too; CloudWatch's other choice keeps it still."""
    [alarm] = [alarm for alarm in ALARMS if alarm.name == "e2e-latency-p99"]
    resource = made(ENDPOINT_SITE, alarm)
    assert resource["extended_statistic"] == "p99"
    assert resource["evaluate_low_sample_count_percentiles"] == "evaluate"


def test_rollback_names_wait_for_the_alarms():
    """What ends a deployment is handed on as references, so the endpoint is made after the alarms."""
    stack = operations()
    named = {output["value"][0]: output["value"] for output in stack.document["output"].values()}
    found = sorted(tuple(stack.follow(name)["alarm_name"] for name in names) for names in named.values())
    assert found == [
        (CLUSTER_SITE.named("e2e-latency-p99"),),
        (ENDPOINT_SITE.named("e2e-latency-p99"), ENDPOINT_SITE.named("endpoint-5xx")),
    ]


def test_lines_come_from_the_settings():
    """Changed settings move the lines, in metric math too."""
    settings = AlarmSettings(
        e2e_p99_ms=900, queue_depth=33, gpu_memory_share=0.5, no_data_minutes=7, spot_interruptions_per_hour=9
    )
    stack = synthesize(
        lambda stack: Alarms(
            stack, "Alarms", AlarmsProps(site=SITE, settings=settings, watched=CLUSTER, topic_arn="arn:aws:sns:x")
        )
    )
    found = {
        resource["alarm_name"].removeprefix(f"{SITE.name}-"): resource
        for resource in stack.all("aws_cloudwatch_metric_alarm")
    }
    assert found["e2e-latency-p99"]["threshold"] == 900
    assert "33.0" in found["queue-growing"]["metric_query"][0]["expression"]
    assert found["gpu-memory-high"]["threshold"] == 0.5
    assert str(CLUSTER.gpu_memory_mib) in found["gpu-memory-high"]["metric_query"][0]["expression"]
    assert found["no-data"]["evaluation_periods"] == found["no-data"]["datapoints_to_alarm"] == 7
    assert found["spot-interruptions"]["threshold"] == 9

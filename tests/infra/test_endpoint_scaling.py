"""How the number of instances follows the load."""

from __future__ import annotations

import json

import botocore.session
import pytest

from eagle3.config.deployment import DeploymentConfig
from endpoint_doubles import NAME, endpoint_stack
from infra.constructs.endpoint.config import VARIANT
from infra.constructs.endpoint.scaling import CONCURRENCY_METRIC
from infra.settings.endpoint import EndpointSettings


def settings_of(**values):
    """Settings of an endpoint from nested values."""
    return EndpointSettings.model_validate(values)


def policies(stack):
    """Policies by the last word of their name."""
    return {policy["name"].rpartition("-")[2]: policy for policy in stack.all("aws_appautoscaling_policy")}


def tracking(policy):
    """Target tracking of a policy."""
    return policy["target_tracking_scaling_policy_configuration"]


def test_scaling_follows_the_endpoint():
    """D23: the target names the endpoint by reference, so that it is made after it and goes before it."""
    stack = endpoint_stack()
    target = stack.only("aws_appautoscaling_target")
    assert stack.follow(target["resource_id"]).kind == "aws_sagemaker_endpoint"
    assert target["resource_id"].endswith(f"/variant/{VARIANT}")
    [variant] = stack.only("aws_sagemaker_endpoint_configuration")["production_variants"]
    assert variant["variant_name"] == VARIANT
    assert (target["min_capacity"], target["max_capacity"]) == (1, 2)
    assert target["scalable_dimension"] == "sagemaker:variant:DesiredInstanceCount"


def test_policies_belong_to_the_target():
    """Policy → target, for namespace, dimension and resource."""
    stack = endpoint_stack()
    for policy in policies(stack).values():
        for key in ("service_namespace", "scalable_dimension", "resource_id"):
            assert stack.follow(policy[key]).kind == "aws_appautoscaling_target"


def test_concurrency_is_tracked_at_high_resolution():
    """Requests at once per instance, a metric of every ten seconds, aimed below the server's limit."""
    deployment = DeploymentConfig.model_validate({"limits": {"concurrency": 20}})
    found = tracking(policies(endpoint_stack(None, deployment))["concurrency"])
    assert found["predefined_metric_specification"] == {"predefined_metric_type": CONCURRENCY_METRIC}
    assert found["target_value"] == 14
    model = botocore.session.get_session().get_service_model("application-autoscaling")
    assert CONCURRENCY_METRIC in model.shape_for("MetricType").enum


def test_queue_is_tracked_by_the_metric_that_the_container_sends():
    """Namespace and dimensions of the policy are those in the container's own config."""
    stack = endpoint_stack()
    metric = tracking(policies(stack)["queue"])["customized_metric_specification"]
    environment = stack.only("aws_sagemaker_model")["primary_container"]["environment"]
    dimensions = {item["name"]: item["value"] for item in metric["dimensions"]}
    assert dimensions == json.loads(environment["EAGLE3_METRICS__DIMENSIONS"]) == {"EndpointName": NAME}
    assert (metric["namespace"], metric["metric_name"], metric["statistic"]) == ("Eagle3", "QueueDepth", "Average")


@pytest.mark.parametrize(
    ("settings", "deployment"),
    [
        ({"autoscaling": {"queue_depth": None}}, None),
        (
            {"image": {"container": "vllm"}, "weights": {"source": "s3", "s3_prefix": "m/"}},
            DeploymentConfig(target="t", draft=None),
        ),
    ],
)
def test_queue_is_not_tracked_where_nobody_counts_it(settings, deployment):
    """AWS's containers send no QueueDepth: a policy on it would never act."""
    assert set(policies(endpoint_stack(settings_of(**settings), deployment))) == {"concurrency"}


def test_cooldowns_cover_the_cold_start():
    """Nothing is asked for while an instance starts, and nothing taken away in twice the time."""
    for policy in policies(endpoint_stack(settings_of(autoscaling={"cold_start_s": 420}))).values():
        found = tracking(policy)
        assert (found["scale_out_cooldown"], found["scale_in_cooldown"]) == (420, 840)


def test_asynchronous_endpoint_sleeps_and_wakes():
    """Backlog per instance is tracked down to no instance; the first comes by an alarm that counts requests alone."""
    stack = endpoint_stack(settings_of(mode="async"))
    assert stack.only("aws_appautoscaling_target")["min_capacity"] == 0
    found = policies(stack)
    assert set(found) == {"backlog", "wake"}
    metric = tracking(found["backlog"])["customized_metric_specification"]
    assert metric["metric_name"] == "ApproximateBacklogSizePerInstance"
    alarm = stack.only("aws_cloudwatch_metric_alarm")
    assert stack.references(alarm["alarm_actions"]) == [found["wake"]]
    assert (alarm["metric_name"], alarm["dimensions"]) == ("HasBacklogWithoutCapacity", {"EndpointName": NAME})
    assert alarm["treat_missing_data"] == "missing"
    assert alarm["datapoints_to_alarm"] <= alarm["evaluation_periods"]
    steps = found["wake"]["step_scaling_policy_configuration"]
    assert [step["scaling_adjustment"] for step in steps["step_adjustment"]] == [1]


def test_asynchronous_endpoint_may_stay_awake():
    """Without scale to zero there is nothing to wake."""
    stack = endpoint_stack(settings_of(mode="async", asynchronous={"scale_to_zero": False}))
    assert stack.only("aws_appautoscaling_target")["min_capacity"] == 1
    assert "aws_cloudwatch_metric_alarm" not in stack.kinds()


def test_scaling_can_be_off():
    """A fixed number of instances has neither target nor policies."""
    assert not {kind for kind in endpoint_stack(settings_of(autoscaling={"enabled": False})).kinds() if "scal" in kind}

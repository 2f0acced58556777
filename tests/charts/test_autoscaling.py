"""What scales the pods: the triggers, the windows, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from autoscaling_doubles import BALANCER, CLOUDWATCH, GATEWAY, PODS, PROMETHEUS, REPORTED, scaled, triggers
from chart_doubles import fails, merged, render
from promql_doubles import selectors, unknown

ALL = (
    ({"kind": "none"}, {}),
    (PROMETHEUS, {}),
    (PODS, {}),
    (CLOUDWATCH, {"config": REPORTED}),
    (merged(PROMETHEUS, {"minReplicas": 0, "wake": GATEWAY}), {}),
    ({"kind": "hpa"}, {}),
    ({"kind": "hpa", "hpa": {"metrics": "external"}}, {}),
    ({"kind": "hpa", "hpa": {"metrics": "cpu"}}, {}),
)


@pytest.mark.parametrize(("autoscaling", "values"), ALL)
def test_one_thing_scales_the_target_and_its_replicas_are_not_said_twice(
    autoscaling: dict[str, Any], values: dict[str, Any]
) -> None:
    """D21: with autoscaling the Deployment says no replicas, without it does; never do two things scale one target."""
    rendered = render({"autoscaling": autoscaling, **values})
    scalers = rendered.all("ScaledObject") + rendered.all("HorizontalPodAutoscaler")
    deployment = rendered.only("Deployment")
    assert len(scalers) == (autoscaling["kind"] != "none")
    assert ("replicas" in deployment["spec"]) == (autoscaling["kind"] == "none")
    for item in scalers:
        target = item["spec"]["scaleTargetRef"]
        assert (target["apiVersion"], target["kind"], target["name"]) == (
            deployment["apiVersion"], deployment["kind"], deployment["metadata"]["name"],
        )  # fmt: skip


@pytest.mark.parametrize("wake", [{}, GATEWAY])
@pytest.mark.parametrize("gpu", [False, True])
def test_a_lost_metric_never_counts_as_zero(wake: dict[str, Any], gpu: bool) -> None:
    """D17: every Prometheus trigger refuses empty results, and lost metrics keep the replicas that there are."""
    values = merged(PROMETHEUS, {"gpuUtilization": {"enabled": gpu}})
    if wake:
        values = merged(values, {"minReplicas": 0, "wake": wake})
    spec = scaled(values)
    assert all(trigger["metadata"]["ignoreNullValues"] == "false" for trigger in spec["triggers"])
    if wake:
        # KEDA takes a fallback as activity and would start a replica; without one HPA lets nothing go down.
        assert "fallback" not in spec
    else:
        assert spec["fallback"] == {"failureThreshold": 3, "replicas": 1, "behavior": "currentReplicasIfHigher"}


def test_lost_engine_metrics_of_cloudwatch_do_not_count_as_zero_either() -> None:
    """D17's kind: CloudWatch without data is an error for the runtime's metrics; a count by AWS itself is then 0."""
    values = merged(CLOUDWATCH, {"minReplicas": 0, "wake": BALANCER})
    found = triggers(values, config=REPORTED)
    assert found["queue-depth"]["metadata"]["ignoreNullValues"] == "false"
    assert found["wake"]["metadata"]["ignoreNullValues"] == "true"
    assert found["wake"]["metadata"]["minMetricValue"] == "0"


@pytest.mark.parametrize("zero", [{}, {"minReplicas": 0, "wake": GATEWAY}])
def test_queries_give_one_value_of_labels_that_exist(zero: dict[str, Any]) -> None:
    """D19: each query begins with sum( or max(, over metrics that there are, by labels that they have."""
    found = triggers(merged(PROMETHEUS, zero, {"gpuUtilization": {"enabled": True}}))
    for name, trigger in found.items():
        query = trigger["metadata"]["query"]
        assert query.startswith(("sum(", "max("))
        assert name == "wake" or not unknown(query), query
    assert selectors(found["queue-depth"]["metadata"]["query"])[0].name == "eagle3_queue_depth"


def test_the_job_asked_for_is_the_one_that_the_monitors_set() -> None:
    """D19: the query's job is the Service's name, which a ServiceMonitor gives, and a PodMonitor is told to give."""
    monitoring = {"podMonitor": {"enabled": True}}
    rendered = render({"autoscaling": PROMETHEUS, "monitoring": monitoring, "fullnameOverride": "chat"})
    query = rendered.only("ScaledObject")["spec"]["triggers"][0]["metadata"]["query"]
    assert 'job="chat"' in query
    assert 'namespace="eagle3"' in query
    assert rendered.only("Service", "chat")
    relabelings = rendered.only("PodMonitor")["spec"]["podMetricsEndpoints"][0]["relabelings"]
    assert {"targetLabel": "job", "replacement": "chat"} in relabelings
    other = triggers(PROMETHEUS, monitoring={"selector": {"app": "chat"}})
    assert other["queue-depth"]["metadata"]["query"] == 'sum(eagle3_queue_depth{app="chat"})'


def test_the_replicas_that_are_gone_are_an_empty_queue_only_where_none_should_be() -> None:
    """With scale to zero the queue is 0 where kube-state-metrics says that no replica is wanted; else never."""
    found = triggers(merged(PROMETHEUS, {"minReplicas": 0, "wake": GATEWAY}))
    clause = ' or max(kube_deployment_spec_replicas{namespace="eagle3",deployment="eagle3"} == 0)'
    assert found["queue-depth"]["metadata"]["query"].endswith(clause)
    assert clause not in triggers(PROMETHEUS)["queue-depth"]["metadata"]["query"]


def test_the_pods_own_metrics_are_summed_over_the_endpoints() -> None:
    """metrics-api reads the text format of each pod at the pods' port, not at the Service's."""
    found = triggers(PODS, service={"port": 80}, config={"serving": {"port": 9000}})
    queue = found["queue-depth"]
    assert queue["type"] == "metrics-api"
    assert queue["metricType"] == "AverageValue"
    assert queue["metadata"] == {
        "url": "http://eagle3.eagle3.svc.cluster.local:9000/metrics",
        "format": "prometheus",
        "valueLocation": "eagle3_queue_depth",
        "aggregateFromKubeServiceEndpoints": "true",
        "aggregationType": "sum",
        "targetValue": "4",
    }
    assert found["busy"]["metadata"]["valueLocation"] == "eagle3_running"


def test_keda_is_let_in_where_it_asks_the_pods() -> None:
    """The network policy lets KEDA's namespace in with trigger metrics-api, and not with the others."""
    for autoscaling, let_in in ((PODS, True), (PROMETHEUS, False), (merged(PODS, {"kind": "none"}), False)):
        (rule,) = render({"autoscaling": autoscaling}).only("NetworkPolicy", "eagle3")["spec"]["ingress"]
        keda = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}
        assert (keda in rule["from"]) == let_in


def test_cloudwatch_is_asked_for_the_metric_as_the_runtime_sends_it() -> None:
    """Namespace and dimensions are the config's; the mean of a replica is multiplied (Value); a login is made."""
    rendered = render({"autoscaling": CLOUDWATCH, "config": merged(REPORTED, {"metrics": {"namespace": "Chat"}})})
    (trigger,) = rendered.only("ScaledObject")["spec"]["triggers"]
    said = trigger["metadata"]
    assert trigger["metricType"] == "Value"
    assert (said["namespace"], said["metricName"], said["metricStat"]) == ("Chat", "QueueDepth", "Average")
    assert (said["dimensionName"], said["dimensionValue"]) == ("ClusterName;Stage", "prod;blue")
    assert int(said["metricCollectionTime"]) > int(said["metricStatPeriod"])
    login = rendered.only("TriggerAuthentication", trigger["authenticationRef"]["name"])
    assert login["spec"]["podIdentity"] == {"provider": "aws"}
    full = merged(CLOUDWATCH, {"cloudwatch": {"tokensPerSecond": 900, "authentication": {"existing": "mine"}}})
    again = render({"autoscaling": full, "config": REPORTED})
    assert not again.all("TriggerAuthentication")
    busy = again.only("ScaledObject")["spec"]["triggers"][1]
    assert (busy["metadata"]["metricName"], busy["authenticationRef"]["name"]) == ("TokensPerSecond", "mine")


MODES = [list(some) for n in (1, 2) for some in itertools.combinations(["bearer", "tls", "custom"], n)]


@pytest.mark.parametrize("modes", MODES)
def test_a_ca_comes_with_the_mode_that_makes_keda_read_it(modes: list[str]) -> None:
    """D18: a TriggerAuthentication with `ca` belongs to a trigger with authModes, and holds what the modes need."""
    login = {"secret": "prometheus-login", "modes": modes, "ca": True}
    rendered = render({"autoscaling": merged(PROMETHEUS, {"prometheus": {"authentication": login}})})
    parameters = {item["parameter"] for item in rendered.only("TriggerAuthentication")["spec"]["secretTargetRef"]}
    needed = {"bearer": {"bearerToken"}, "tls": {"cert", "key"}, "custom": {"customAuthHeader", "customAuthValue"}}
    assert parameters == {"ca"}.union(*(needed[mode] for mode in modes))
    for trigger in rendered.only("ScaledObject")["spec"]["triggers"]:
        assert trigger["metadata"]["authModes"] == ",".join(modes)
        assert trigger["authenticationRef"] == {"name": "eagle3-prometheus"}


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ({"secret": "s", "ca": True}, "KEDA ignores a ca without a mode"),
        ({"existing": "t", "ca": True}, "KEDA ignores a ca without a mode"),
        ({"secret": "s"}, "modes is empty"),
        ({"modes": ["bearer"]}, "nothing holds the credentials"),
        ({"secret": "s", "existing": "t", "modes": ["tls"]}, "allowed: one of them"),
        ({"secret": "s", "modes": ["bearer", "basic"]}, "exclude each other"),
    ],
)
def test_a_login_that_keda_would_ignore_is_refused(login: dict[str, Any], said: str) -> None:
    """D18: what KEDA would silently leave out is refused, with the key to set."""
    assert said in fails({"autoscaling": merged(PROMETHEUS, {"prometheus": {"authentication": login}})})


def test_windows_follow_the_cold_start() -> None:
    """Scaling up waits one cold start and at most doubles in one; scaling down waits longer and goes in small steps."""
    for cold in (60, 300, 900, 1800):
        for item in (
            scaled(merged(PROMETHEUS, {"coldStartSeconds": cold}))["advanced"]["horizontalPodAutoscalerConfig"],
            render({"autoscaling": {"kind": "hpa", "coldStartSeconds": cold}}).only("HorizontalPodAutoscaler")["spec"],
        ):
            up, down = item["behavior"]["scaleUp"], item["behavior"]["scaleDown"]
            assert up["stabilizationWindowSeconds"] == cold
            assert up["policies"] == [{"type": "Percent", "value": 100, "periodSeconds": cold}]
            assert down["stabilizationWindowSeconds"] == min(max(600, 2 * cold), 3600)
            assert down["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 120}]


def test_busy_replicas_are_kept_by_a_share_of_their_concurrency() -> None:
    """The second target is busyShare of config.limits.concurrency, the runtime's own where it is not said."""
    assert triggers(PROMETHEUS)["busy"]["metadata"]["threshold"] == "48"
    half = triggers(merged(PODS, {"busyShare": 0.5}), config={"limits": {"concurrency": 9}})
    assert half["busy"]["metadata"]["targetValue"] == "4.5"
    assert "busy" not in triggers(merged(PROMETHEUS, {"busyShare": None}))


def test_without_keda_the_same_targets_are_an_hpas() -> None:
    """kind hpa asks the custom or the external metrics API for the same numbers; CPU only where that is said."""
    custom = render({"autoscaling": {"kind": "hpa"}}).only("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert [(item["type"], item["pods"]["metric"]["name"]) for item in custom] == [
        ("Pods", "eagle3_queue_depth"), ("Pods", "eagle3_running"),
    ]  # fmt: skip
    assert [item["pods"]["target"]["averageValue"] for item in custom] == ["4", "48"]
    spec = render({"autoscaling": {"kind": "hpa", "hpa": {"metrics": "external"}}}).only("HorizontalPodAutoscaler")
    for item in spec["spec"]["metrics"]:
        assert item["external"]["metric"]["selector"]["matchLabels"] == {"namespace": "eagle3", "job": "eagle3"}
    cpu = render({"autoscaling": {"kind": "hpa", "hpa": {"metrics": "cpu"}}}).only("HorizontalPodAutoscaler")
    assert [item["type"] for item in cpu["spec"]["metrics"]] == ["ContainerResource"]

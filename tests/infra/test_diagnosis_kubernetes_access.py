"""What a diagnosis says of a cluster that it cannot look at, or not wholly: never an error, always the rest."""

from __future__ import annotations

import socket
import stat
import time
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from faulty_clusters import image_pull, stuck_release
from infra.diagnosis.evidence import ClusterAccess, Context, NotSeen, causes_of
from infra.diagnosis.kubernetes_collectors import DAEMON_SETS, DEPLOYMENTS, NODES, PODS, ClusterCollector, ClusterFacts
from infra.diagnosis.kubernetes_reader import opened
from infra.diagnosis.kubernetes_rules import KUBERNETES_RULES
from kubernetes_api_doubles import ARN, Fault, kubernetes_api, write_kubeconfig
from recorded_clusters import healthy
from waiting_clusters import taint

NOW = datetime(2026, 11, 30, 3, 12, tzinfo=UTC)
CLUSTER = "eagle3-dev-large-cluster"


def collect(kubeconfig, alarm="pods-unschedulable", **access):
    """Evidence of the cluster."""
    since = NOW - timedelta(hours=1)
    cluster = ClusterAccess(kubeconfig=kubeconfig, **access)
    return ClusterCollector().collect(
        Context(alarm=alarm, site="eagle3-dev-large", stack="large", since=since, now=NOW, cluster=cluster)
    )


def first_cause(evidence, alarm="pods-unschedulable"):
    """Name of the first cause, or None."""
    rules = KUBERNETES_RULES[alarm]
    found = causes_of(rules, evidence, {rule.cause: "" for rule in rules})
    return found[0].name if found else None


def test_forbidden_lists_are_named_and_the_rest_is_used(tmp_path):
    """A viewer sees no nodes and no pools: both are said with the permission that lacks, and the taint is found."""
    faults = {"nodes": Fault(403), "karpenter.sh/nodepools": Fault(403), "karpenter.sh/nodeclaims": Fault(403)}
    with kubernetes_api(taint(NOW), faults=faults) as api:
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url))
    assert [one.source for one in evidence.not_seen] == [
        "Kubernetes nodes", "Kubernetes nodepools", "Kubernetes nodeclaims",
    ]  # fmt: skip
    for one in evidence.not_seen:
        assert one.reason.startswith("403, ")
        assert "cannot list resource" in one.reason
    assert first_cause(evidence) == "untolerated taint"


def test_who_may_see_one_namespace_sees_it(tmp_path):
    """No list of all namespaces is permitted: the server's own is read in its place, and that is said."""
    faults = {f"{kind}@*": Fault(403) for kind in ("pods", "events", "apps/deployments")}
    with kubernetes_api(image_pull(NOW), faults=faults) as api:
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url), "no-data")
    assert [one.source for one in evidence.not_seen] == [
        "Kubernetes pods", "Kubernetes events", "Kubernetes deployments",
    ]  # fmt: skip
    assert first_cause(evidence, "no-data") == "an image cannot be pulled"


def test_nothing_permitted_is_no_cause(tmp_path):
    """Where nothing was seen there are no facts: an empty namespace is not taken for one without pods."""
    with kubernetes_api(healthy(NOW)) as api:
        api.faults |= {kind: Fault(403) for kind in api.recorded}
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url), "no-data")
    assert evidence.of(ClusterFacts) is None
    assert first_cause(evidence, "no-data") is None
    assert len(evidence.not_seen) >= 8


def test_pods_seen_and_deployments_not(tmp_path):
    """Nobody says "nothing is deployed" who did not see the Deployments."""
    recorded = healthy(NOW) | {"pods": []}
    with kubernetes_api(recorded, faults={"apps/deployments": Fault(403)}) as api:
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url), "no-data")
    assert first_cause(evidence, "no-data") is None


def test_credentials_that_are_refused(tmp_path):
    """401 says what to do about it."""
    with kubernetes_api(healthy(NOW)) as api:
        api.faults |= {kind: Fault(401) for kind in api.recorded}
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url))
    assert {one.reason.partition(",")[0] for one in evidence.not_seen} == {"401"}
    assert "aws eks update-kubeconfig" in evidence.not_seen[0].reason


@pytest.mark.parametrize(("times", "seen"), [(1, True), (None, False)], ids=["once", "always"])
def test_throttling(tmp_path, times, seen):
    """A throttled list is asked for again as the API says; in the end it is not seen, and the others are."""
    fault = Fault(429, headers={"Retry-After": "0"}, times=times)
    with kubernetes_api(taint(NOW), faults={"events": fault}) as api:
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url))
        asked = [path for _, path, _ in api.asked if "/events" in path]
    assert first_cause(evidence) == "untolerated taint"
    assert [one.reason[:3] for one in evidence.not_seen] == ([] if seen else ["429", "429"])
    assert len(asked) == (2 if seen else 6)  # three tries of all namespaces, three of one


def test_a_list_that_hangs_costs_its_time_and_no_more(tmp_path):
    """One list without an answer is said and the next is read; after a second one the cluster counts as lost."""
    with kubernetes_api(healthy(NOW), faults={"pods@*": Fault(hangs=True)}) as api:
        access = ClusterAccess(kubeconfig=write_kubeconfig(tmp_path / "config", api.url))
        began = time.monotonic()
        with opened(access, CLUSTER, read_s=0.3) as reader:
            assert reader.everywhere(PODS) is not None  # of the namespace
            assert len(reader.everywhere(NODES)) == 4
            assert [one.reason for one in reader.not_seen] == ["no answer within 0.3 s"]
            api.faults["apps/deployments"] = api.faults["nodes"] = Fault(hangs=True)
            assert reader.everywhere(DEPLOYMENTS) is None
            assert reader.everywhere(DAEMON_SETS) is None
            assert "does not answer, the rest was not asked" in reader.not_seen[-1].reason
        assert time.monotonic() - began < 10.0


def test_an_address_where_nobody_listens(tmp_path):
    """One line, however many lists there were to ask for."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    evidence = collect(write_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}"))
    [one] = evidence.not_seen
    assert one.source == "Kubernetes"
    assert "does not answer" in one.reason
    assert "Connection refused" in one.reason
    assert evidence.facts == ()


def test_an_address_without_tls(tmp_path):
    """A server that speaks no TLS where TLS is meant is told in one line too."""
    with kubernetes_api(healthy(NOW)) as api:
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url.replace("http:", "https:")))
    [one] = evidence.not_seen
    assert "SSL" in one.reason
    assert "\n" not in one.reason


def test_an_address_that_speaks_something_else(tmp_path):
    """A sign-in page in place of the API is told as that, and so are bytes that are no text."""
    page = Fault(200, headers={"Content-Type": "text/html"}, body=b"<html>sign in</html>")
    with kubernetes_api(healthy(NOW)) as api:
        api.faults |= dict.fromkeys(api.recorded, page)
        api.faults["nodes"] = Fault(502, headers={"Content-Type": "text/html"}, body=b"\xff\xfe")
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url))
    assert all("no list of Kubernetes" in one.reason for one in evidence.not_seen)
    assert evidence.facts == ()


def test_a_cluster_without_karpenter_and_keda(tmp_path):
    """Kinds that the cluster does not have are said, with who brings them."""
    recorded = {key: value for key, value in taint(NOW).items() if "karpenter" not in key and "keda" not in key}
    with kubernetes_api(recorded) as api:
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url), "queue-growing")
    missing = {one.source.removeprefix("Kubernetes ") for one in evidence.not_seen if one.reason.startswith("404")}
    assert missing == {"nodepools", "nodeclaims", "scaledobjects in eagle3"}
    assert all("is not installed" in one.reason for one in evidence.not_seen)


@pytest.mark.parametrize(
    "content",
    [None, "", "a: [", "kind: Config", "- a", "text", "contexts: 3"],
    ids=["absent", "empty", "no YAML", "no contexts", "a list", "text", "contexts of another type"],
)
def test_a_kubeconfig_that_is_none(tmp_path, content):
    """One line that says so and how to get one."""
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    [one] = collect(path).not_seen
    assert "kubeconfig" in one.reason
    assert f"aws eks update-kubeconfig --name {CLUSTER}" in one.reason


def test_a_kubeconfig_of_another_cluster(tmp_path):
    """The current context is of another cluster of EKS: nothing is asked of it, unless the context is named."""
    with kubernetes_api(taint(NOW)) as api:
        path = write_kubeconfig(tmp_path / "config", api.url, cluster=f"{ARN}somebody-elses")
        [one] = collect(path).not_seen
        assert f"the current one is of {ARN}somebody-elses" in one.reason
        assert api.asked == []
        assert first_cause(collect(path, context=f"{ARN}somebody-elses")) == "untolerated taint"
    [one] = collect(path, context="no-such").not_seen
    assert "no-such" in one.reason


def test_the_context_of_the_cluster_is_found_among_others(tmp_path):
    """The current context is of another cluster, and one that is not current is of ours."""
    with kubernetes_api(taint(NOW)) as api:
        content = yaml.safe_load(write_kubeconfig(tmp_path / "a", api.url).read_text())
        other = yaml.safe_load(write_kubeconfig(tmp_path / "b", "http://127.0.0.1:1", cluster=f"{ARN}b").read_text())
        for key in ("clusters", "users", "contexts"):
            content[key] = other[key] + content[key]
        content["current-context"] = other["current-context"]
        path = tmp_path / "config"
        path.write_text(yaml.safe_dump(content))
        before = path.read_bytes()
        assert first_cause(collect(path)) == "untolerated taint"
        assert path.read_bytes() == before


def test_credentials_by_a_command_that_fails(tmp_path, caplog):
    """`aws eks get-token` that fails leaves requests without a token: what the API answers is said."""
    command = tmp_path / "get-token"
    command.write_text("#!/bin/sh\necho expired >&2\nexit 3\n", encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": str(command), "args": []}}
    with kubernetes_api(healthy(NOW)) as api:
        api.faults |= {kind: Fault(401) for kind in api.recorded}
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url, **user))
    assert evidence.not_seen[0].reason.startswith("401, the credentials were not accepted")
    assert "expired" in caplog.text


def test_secrets_are_read_by_their_labels_alone(tmp_path):
    """Helm keeps releases in Secrets: the client accepts metadata only, so that no contents travel."""
    with kubernetes_api(stuck_release(NOW)) as api:
        evidence = collect(write_kubeconfig(tmp_path / "config", api.url), "bootstrap-failed")
        [(_, path, accept)] = [one for one in api.asked if "/secrets" in one[1]]
    assert first_cause(evidence, "bootstrap-failed") == "a Helm release is stuck"
    assert accept == "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert "labelSelector=owner%3Dhelm" in path


def test_what_lies_beyond_the_limit_is_said(tmp_path):
    """A list that never ends is cut, and that is said."""
    recorded = healthy(NOW)
    recorded["nodes"] = recorded["nodes"] * 4
    with kubernetes_api(recorded, page=1) as api:
        access = ClusterAccess(kubeconfig=write_kubeconfig(tmp_path / "config", api.url))
        with opened(access, CLUSTER) as reader:
            assert not isinstance(reader, NotSeen)
            assert len(reader.everywhere(NODES)) == 8
            [one] = reader.not_seen
    assert one.reason == "more than 8 parts; the first 8 objects were looked at"

"""What a diagnosis reads out of a cluster's API: the cause of each recorded fault, with the real client over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faulty_clusters import CAUSES, HEALTHY
from infra.diagnosis.evidence import ClusterAccess, Context, Evidence, causes_of
from infra.diagnosis.kubernetes_collectors import ASKED, ClusterCollector, ClusterFacts
from infra.diagnosis.kubernetes_rules import KUBERNETES_RULES
from kubernetes_api_doubles import Fault, kubernetes_api, write_kubeconfig
from recorded_clusters import Lists, healthy
from waiting_clusters import device_plugin, taint

NOW = datetime(2026, 11, 30, 3, 12, tzinfo=UTC)


def context(alarm: str, kubeconfig: Path) -> Context:
    """The diagnosis of an alarm of the stack large over the last hour."""
    return Context(
        alarm=alarm,
        site="eagle3-dev-large",
        stack="large",
        since=NOW - timedelta(hours=1),
        now=NOW,
        cluster=ClusterAccess(kubeconfig=kubeconfig),
    )


def look(alarm: str, recorded: Lists, folder: Path, *, page: int = 500, **faults: Fault) -> tuple[Evidence, list[str]]:
    """The evidence, and the causes that it shows, the first first."""
    with kubernetes_api(recorded, faults=faults, page=page) as api:
        evidence = ClusterCollector().collect(context(alarm, write_kubeconfig(folder / "kubeconfig", api.url)))
        assert {method for method, _, _ in api.asked} <= {"GET"}
    return evidence, names(alarm, evidence)


def names(alarm: str, evidence: Evidence) -> list[str]:
    """Causes by name."""
    rules = KUBERNETES_RULES[alarm]
    return [cause.name for cause in causes_of(rules, evidence, {rule.cause: "" for rule in rules})]


@pytest.mark.parametrize(
    ("alarm", "cluster", "cause"), CAUSES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_each_fault_is_named_first(alarm, cluster, cause, tmp_path):
    """The cause of a recorded fault comes first, every finding of it says what was seen, and nothing was unseen."""
    evidence, found = look(alarm, cluster(NOW), tmp_path)
    assert found, [(one.what, one.value) for one in evidence.findings]
    assert found[0] == cause
    assert evidence.not_seen == ()
    assert all("\n" not in one.value and one.value for one in evidence.findings)


@pytest.mark.parametrize("alarm", ASKED)
@pytest.mark.parametrize("cluster", HEALTHY)
def test_a_healthy_cluster_shows_no_cause(alarm, cluster, tmp_path):
    """Nothing is wrong, so nothing is named; what was looked at is counted all the same."""
    evidence, found = look(alarm, cluster(NOW), tmp_path)
    assert found == []
    assert evidence.not_seen == ()
    assert "2, 2 ready" in [one.value for one in evidence.findings]


def test_one_fault_is_one_cause(tmp_path):
    """A pod kept away by a taint is not said to lack a device plugin, nor the other way round."""
    assert look("pods-unschedulable", taint(NOW), tmp_path)[1] == ["untolerated taint"]
    shown = look("pods-unschedulable", device_plugin(NOW), tmp_path)[1]
    assert "untolerated taint" not in shown


def test_pages_are_joined(tmp_path):
    """A long list comes in parts, and the pod in the last one is found."""
    assert look("pods-unschedulable", taint(NOW), tmp_path, page=1)[1] == ["untolerated taint"]


def test_every_alarm_that_asks_has_rules():
    """What is looked at for an alarm is looked at by a rule, and no rule waits for what nobody reads."""
    assert set(ASKED) == set(KUBERNETES_RULES)


def test_every_cause_is_brought_about():
    """No rule is left without a recorded cluster in which its cause comes first."""
    recorded = {(alarm, cause) for alarm, _, cause in CAUSES}
    assert recorded == {(alarm, rule.cause) for alarm, rules in KUBERNETES_RULES.items() for rule in rules}


def test_what_is_new_is_no_fault(tmp_path):
    """A node of one minute without GPUs and a claim of two minutes are on their way."""
    recorded = device_plugin(NOW - timedelta(minutes=22))
    for item in recorded["nodes"][-1:]:
        item["metadata"]["creationTimestamp"] = (NOW - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    [claim] = recorded["karpenter.sh/nodeclaims"][-1:]
    for one in claim["status"]["conditions"]:
        one["lastTransitionTime"] = (NOW - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert "device plugin missing on a GPU node" not in look("pods-unschedulable", recorded, tmp_path)[1]


def test_facts_of_a_healthy_cluster(tmp_path):
    """Ready and wanted replicas are counted."""
    facts = look("no-data", healthy(NOW), tmp_path)[0].of(ClusterFacts)
    assert facts is not None
    assert (facts.ready, facts.wanted, facts.deployed, facts.troubles) == (2, 2, True, ())

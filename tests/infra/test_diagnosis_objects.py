"""Objects of the API as other versions and other hands write them: fields that are absent, tolerations, amounts."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

import faulty_clusters
import waiting_clusters
from infra.diagnosis import kubernetes_collectors
from infra.diagnosis.evidence import ClusterAccess, Context
from infra.diagnosis.kubernetes_collectors import ASKED, examined
from infra.diagnosis.kubernetes_objects import amount, event_time, title, trouble, untolerated
from infra.diagnosis.kubernetes_reader import Kind
from recorded_clusters import TAINT, TOLERATION

NOW = datetime(2026, 11, 30, 3, 12, tzinfo=UTC)
# What the API's schemas require, or its server always sets.
REQUIRED = {
    "metadata", "metadata.name", "metadata.namespace", "spec", "status", "spec.template", "spec.template.spec",
    "spec.maxReplicas", "spec.taints.#.key", "spec.taints.#.effect", "spec.template.spec.taints.#.key",
    "spec.template.spec.taints.#.effect",
}  # fmt: skip


class RecordedReader:
    """Gives recorded lists as a reader does, without a cluster."""

    def __init__(self, recorded):
        self._recorded, self.not_seen = recorded, []

    def everywhere(self, kind):
        group = f"{kind.api.split('/')[2]}/" if kind.api.startswith("/apis/") else ""
        return tuple({**item, "kind": kind.kind} for item in self._recorded[f"{group}{kind.plural}"])

    def own(self, kind):
        return tuple(item for item in self.everywhere(kind) if item["metadata"].get("namespace") == "eagle3")


def examine(recorded, alarm):
    context = Context(
        alarm=alarm, site="eagle3-dev-large", stack="large", since=NOW - timedelta(hours=1), now=NOW,
        cluster=ClusterAccess(),
    )  # fmt: skip
    return examined(RecordedReader(recorded), context, "eagle3")


def paths(value, path=()):
    """Where each field of an object is."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if isinstance(value, dict):
            yield (*path, key)
        yield from paths(inner, (*path, key))


@pytest.mark.parametrize(
    ("alarm", "cluster"),
    [
        ("pods-unschedulable", waiting_clusters.device_plugin),
        ("pods-unschedulable", waiting_clusters.account_quota),
        ("no-data", faulty_clusters.crash_loop),
        ("no-data", faulty_clusters.not_ready),
        ("queue-growing", faulty_clusters.at_maximum),
        ("spot-interruptions", faulty_clusters.blocked_drain),
        ("bootstrap-failed", faulty_clusters.stuck_release),
    ],
)
def test_an_optional_field_may_be_absent(alarm, cluster):
    """Without any one field that need not be there, the rest is read all the same."""
    recorded, tried = cluster(NOW), set()
    for plural, items in recorded.items():
        for index, item in enumerate(items):
            for path in paths(item):
                general = ".".join("#" if isinstance(part, int) else part for part in path)
                if general in REQUIRED or (plural, general) in tried:
                    continue
                tried.add((plural, general))
                changed = copy.deepcopy(recorded)
                holder = changed[plural][index]
                for part in path[:-1]:
                    holder = holder[part]
                del holder[path[-1]]
                assert examine(changed, alarm).facts, general
    assert len(tried) > 60


def test_kinds_are_asked_for_once():
    """No alarm asks for a kind twice, and every kind is asked for by some alarm."""
    kinds = {value for value in vars(kubernetes_collectors).values() if isinstance(value, Kind)}
    assert {kind for asked in ASKED.values() for kind in asked} == kinds
    assert all(len(set(asked)) == len(asked) for asked in ASKED.values())


@pytest.mark.parametrize(
    ("toleration", "kept_away"),
    [
        (TOLERATION, False),
        ({"operator": "Exists"}, False),
        ({"key": TAINT["key"], "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": TAINT["key"], "value": "true"}, False),
        ({"key": TAINT["key"], "value": "false", "effect": "NoSchedule"}, True),
        ({"key": TAINT["key"], "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "other", "operator": "Exists"}, True),
    ],
)
def test_tolerations(toleration, kept_away):
    """A taint keeps away whom no toleration lets in: by key, value and effect, each of which may be left open."""
    pod = {"spec": {"tolerations": [toleration]}}
    assert bool(untolerated(pod, [TAINT])) == kept_away
    assert untolerated(pod, [TAINT | {"effect": "PreferNoSchedule"}]) == []
    assert untolerated(pod, None) == []


def test_amounts_and_times():
    """Quantities with and without a unit, and the three places in which an event may have its time."""
    assert [amount(text) for text in ("8", "64Gi", "500m", None)] == [8, 64 * 2**30, Decimal("0.5"), 0]
    text = "2026-11-30T03:00:00Z"
    for event in ({"lastTimestamp": text}, {"eventTime": text}, {"series": {"lastObservedTime": text}}):
        assert event_time(event) == datetime(2026, 11, 30, 3, tzinfo=UTC)
    assert event_time({}) is None


def test_findings_are_one_line():
    """What a container said last may have many lines; a finding has one, of bounded length."""
    item = {"kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}
    found = trouble("crash", item, "Traceback:\n  file\n" + "x" * 1000).finding
    assert title(item) == found.what == "Pod b/a"
    assert "\n" not in found.value
    assert len(found.value) == 300

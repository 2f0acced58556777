"""The PodDisruptionBudget of the chart eagle3: nodes can always be drained."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import fails, render

KEDA = {"kind": "keda", "prometheus": {"serverAddress": "http://prometheus:9090"}}


def budget(values: dict[str, Any]) -> dict[str, Any]:
    """The budget's spec."""
    found: dict[str, Any] = render(values).only("PodDisruptionBudget")["spec"]
    return found


@pytest.mark.parametrize("replicas", [0, 1, 2, 7])
def test_one_pod_may_always_go(replicas: int) -> None:
    """D13: by default one pod may be away, at any number of replicas, and a broken one never blocks."""
    spec = budget({"replicas": replicas})
    assert spec["maxUnavailable"] == 1
    assert "minAvailable" not in spec
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(
    ("least", "stay", "fits"),
    [
        (1, 0, True),
        (1, 1, False),
        (2, 1, True),
        (2, 2, False),
        (2, "50%", True),
        (2, "51%", False),
        (4, "75%", True),
        (4, "76%", False),
        (9, "100%", False),
    ],
)
@pytest.mark.parametrize("scaled", [False, True])
def test_pods_that_stay_are_fewer_than_there_are(least: int, stay: int | str, fits: bool, scaled: bool) -> None:
    """D13: minAvailable must leave one pod free at the least number of replicas; percentages count rounded up."""
    count = {"autoscaling": {**KEDA, "minReplicas": least, "maxReplicas": 12}} if scaled else {"replicas": least}
    values = {**count, "pdb": {"minAvailable": stay}}
    if fits:
        assert budget(values)["minAvailable"] == stay
        assert "maxUnavailable" not in budget(values)
        return
    message = fails(values)
    assert f"pdb.minAvailable is {stay}" in message
    assert ("autoscaling.minReplicas" if scaled else "replicas") in message


@pytest.mark.parametrize("away", [0, "0%"])
def test_a_budget_without_room_is_refused(away: int | str) -> None:
    """D13: maxUnavailable 0 would block every drain; any other is taken."""
    assert f"pdb.maxUnavailable is {away}" in fails({"pdb": {"maxUnavailable": away}})
    assert budget({"pdb": {"maxUnavailable": "25%"}})["maxUnavailable"] == "25%"


def test_the_budget_counts_the_servers_pods() -> None:
    """It selects what the Deployment selects; it can be left out."""
    rendered = render()
    selector = rendered.only("Deployment")["spec"]["selector"]
    assert rendered.only("PodDisruptionBudget")["spec"]["selector"] == selector
    assert not render({"pdb": {"enabled": False}}).all("PodDisruptionBudget")

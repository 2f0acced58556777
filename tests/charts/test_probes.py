"""Probes of the chart eagle3: a model that loads is not killed, and one that cannot answer gets no requests."""

from __future__ import annotations

import math
from typing import Any

import pytest

from chart_doubles import fails, render
from eagle3.config.deployment import DeploymentConfig


def server(values: dict[str, Any]) -> dict[str, Any]:
    """The server's container."""
    container: dict[str, Any] = render(values).only("Deployment")["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.mark.parametrize("timeout_s", [None, 30, 59.5, 600, 3600])
@pytest.mark.parametrize("period", [1, 7, 10])
def test_startup_waits_as_long_as_loading_may_take(timeout_s: float | None, period: int) -> None:
    """D15: the startup probe's budget exceeds engine.start_timeout_s by a period, whatever both are."""
    engine = {} if timeout_s is None else {"start_timeout_s": timeout_s}
    probe = server({"config": {"engine": engine}, "probes": {"startup": {"periodSeconds": period}}})["startupProbe"]
    budget = timeout_s or DeploymentConfig().engine.start_timeout_s
    assert probe["periodSeconds"] == period
    assert probe["failureThreshold"] == math.ceil(budget / period) + 1
    assert probe["failureThreshold"] * period >= budget + period


def test_liveness_looks_at_the_process_and_readiness_at_the_engine() -> None:
    """D15: liveness asks /health, which loading and draining do not fail; startup and readiness ask /ready."""
    container = server({})
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/ready", "readiness": "/ready", "liveness": "/health"}
    assert {container[f"{kind}Probe"]["httpGet"]["port"] for kind in paths} == {"http"}


def test_the_startup_budget_cannot_be_typed() -> None:
    """The number of startup failures follows from the config; a value of one's own is an unknown key."""
    assert "failureThreshold" in fails({"probes": {"startup": {"failureThreshold": 3}}})
    assert server({"probes": {"liveness": {"failureThreshold": 9}}})["livenessProbe"]["failureThreshold"] == 9

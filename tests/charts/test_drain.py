"""The drain arithmetic of the chart eagle3: what a pod needs to end well fits its grace, or nothing is rendered."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import CHARTS, fails, render
from eagle3.server import app, http_server

GPUS = {"target": "/models/target", "device": "cuda"}


def grace(values: dict[str, Any]) -> int:
    """The grace of the server's pod."""
    seconds: int = render(values).only("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return seconds


@pytest.mark.parametrize("spot", [False, True])
@pytest.mark.parametrize("drain_s", [0, 0.5, 25, 60.25, 81, 81.9])
@pytest.mark.parametrize("pre_stop", [0, 5])
@pytest.mark.parametrize("engine", ["native", "vllm"])
def test_the_computed_grace_holds_the_drain(spot: bool, drain_s: float, pre_stop: int, engine: str) -> None:
    """D14: preStop + drain + flush + engine stop < grace in every combination, and at most 110 s on spot nodes."""
    config = {**GPUS, "limits": {"drain_s": drain_s}, "engine": {"name": engine}}
    drain = {"spot": spot, "preStopSleepSeconds": pre_stop}
    seconds = grace({"config": config, "drain": drain, "model": {"weightsGiB": 16}})
    assert pre_stop + drain_s + 3 + 20 < seconds
    assert seconds <= 110 or not spot


def test_the_chart_knows_what_the_server_takes_to_stop() -> None:
    """The flush and the engine's stop of the arithmetic are those of the server's code."""
    text = (CHARTS / "eagle3" / "templates" / "_drain.tpl").read_text(encoding="utf-8")
    assert f"$flush := {http_server._FLUSH_S:g}" in text
    assert f"$stop := {app._STOP_S:g}" in text


def test_a_grace_of_ones_own_must_exceed_the_drain() -> None:
    """The sum itself is too little, a second more is enough; the refusal gives every number and what to change."""
    drain = {"terminationGracePeriodSeconds": 53}
    message = fails({"drain": drain})
    for part in ("preStopSleepSeconds 5", "drain_s 25", "flush 3", "engine stop 20", "= 53 s", "is 53 s", "below 25"):
        assert part in message
    assert "raise drain.terminationGracePeriodSeconds above 53" in message
    assert grace({"drain": {"terminationGracePeriodSeconds": 54}}) == 54


def test_spot_nodes_leave_110_seconds() -> None:
    """On spot nodes a grace over 110 s and a drain that needs more are refused; elsewhere both are allowed."""
    long = {"config": {"limits": {"drain_s": 90}}}
    message = fails({**long, "drain": {"spot": True}})
    assert "= 118 s" in message
    assert "110 s (the most on spot nodes)" in message
    assert "lower config.limits.drain_s below 82" in message
    assert "is 111 s" in fails({"drain": {"spot": True, "terminationGracePeriodSeconds": 111}})
    assert grace({"drain": {"spot": True, "terminationGracePeriodSeconds": 110}}) == 110
    assert grace(long) == 123
    assert grace({"drain": {"terminationGracePeriodSeconds": 300}}) == 300


def test_a_grace_without_room_for_any_drain_says_so() -> None:
    """Where even a drain of 0 s would not fit, the remedy is not a negative number."""
    message = fails({"drain": {"spot": True, "preStopSleepSeconds": 100}})
    assert "lower drain.preStopSleepSeconds and config.limits.drain_s" in message
    assert "below -" not in message


def test_the_pod_waits_before_it_stops() -> None:
    """The preStop sleep is the kubelet's own, without a shell in the image; 0 s means none."""
    pod = render({"drain": {"preStopSleepSeconds": 7}}).only("Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 7}}}
    pod = render({"drain": {"preStopSleepSeconds": 0}}).only("Deployment")["spec"]["template"]["spec"]
    assert "lifecycle" not in pod["containers"][0]

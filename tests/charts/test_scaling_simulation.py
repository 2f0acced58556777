"""The rendered scaling objects under load: no flapping, a bounded queue, and what happens without their windows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from autoscaling_doubles import CLOUDWATCH, GATEWAY, PODS, PROMETHEUS, REPORTED
from chart_doubles import merged, render
from scaling_model import Course, Replicas, Scaler, run, scaler

STEP_S = 30
REPLICAS = Replicas()
MOST = {"maxReplicas": 8}
NEEDED = 3
"""Replicas that the profile's plateau keeps busy: 24 requests/s of 6.4 s each, on 64 slots a replica."""
TOKENS = {"cloudwatch": {"tokensPerSecond": 48}}
"""As if each request in flight made one token a second."""


def profile() -> list[tuple[str, float]]:
    """Phase and arrivals per second, a row each half minute."""
    with (Path(__file__).parent / "load_profile.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["second"]) for row in rows] == list(range(0, STEP_S * len(rows), STEP_S))
    return [(row["phase"], float(row["requests_per_s"])) for row in rows]


ARRIVALS = [rate for _, rate in profile()]


def rendered(autoscaling: dict[str, Any]) -> Scaler:
    """The scaling object of these values."""
    objects = render({"autoscaling": merged(autoscaling, MOST), "config": REPORTED})
    kind = "HorizontalPodAutoscaler" if autoscaling["kind"] == "hpa" else "ScaledObject"
    return scaler(objects.only(kind))


def driven(autoscaling: dict[str, Any], *, delay_s: int = 0, arrivals: list[float] | None = None) -> Course:
    """The profile through these values."""
    load = ARRIVALS if arrivals is None else arrivals
    return run(rendered(autoscaling), load, step_s=STEP_S, replicas=REPLICAS, delay_s=delay_s)


SCALERS = [
    (PROMETHEUS, 10),
    (PODS, 0),
    (merged(CLOUDWATCH, TOKENS), 90),
    ({"kind": "hpa"}, 10),
]


@pytest.mark.parametrize(("autoscaling", "delay_s"), SCALERS)
def test_a_day_in_small_neither_flaps_nor_floods(autoscaling: dict[str, Any], delay_s: int) -> None:
    """Up with the ramp, still through noise and burst, down after the fall: one turn, and no request is refused."""
    course = driven(autoscaling, delay_s=delay_s)
    assert course.turns == 1
    assert max(course.replicas) == NEEDED
    assert course.replicas[-1] == 1
    assert course.refused == 0
    # What waits at most is the burst's excess over what the replicas can do.
    assert max(course.waiting) <= REPLICAS.queue * NEEDED


def test_the_queue_is_empty_but_for_the_burst() -> None:
    """Scaling keeps ahead of the ramp: outside the burst and the five minutes after it hardly anyone waits."""
    course = driven(PROMETHEUS)
    burst = next(index for index, (phase, _) in enumerate(profile()) if phase == "burst") * STEP_S
    calm = [depth for tick, depth in enumerate(course.waiting) if not burst <= tick * 5 <= burst + 300]
    assert max(calm) <= 64


def test_a_window_shorter_than_the_cold_start_overshoots() -> None:
    """The control: windows sized to 15 s, while replicas take 300, ask for everything that is allowed and need none."""
    hasty = driven(merged(PROMETHEUS, {"coldStartSeconds": 15}))
    assert max(hasty.replicas) == MOST["maxReplicas"]
    right = driven(PROMETHEUS)
    assert sum(hasty.replicas) > 1.2 * sum(right.replicas)


def test_the_queue_alone_flaps() -> None:
    """The control of busyShare: replicas that empty the queue are let go, and the queue fills again."""
    blind = driven(merged(PROMETHEUS, {"busyShare": None}))
    assert blind.turns >= 5
    assert blind.refused > 0


def test_no_windows_flap_with_noise() -> None:
    """The control of both windows: without them, four minutes of more and four of less move replicas up and down."""
    calm = rendered(PROMETHEUS)
    noisy = [11.0 if index % 16 < 8 else 5.0 for index in range(480)]
    nervous = Scaler(
        least=calm.least, most=calm.most, targets=calm.targets,
        up={**calm.up, "stabilizationWindowSeconds": 0}, down={**calm.down, "stabilizationWindowSeconds": 0},
    )  # fmt: skip
    assert run(nervous, noisy, step_s=STEP_S, replicas=REPLICAS).turns > 10
    assert run(calm, noisy, step_s=STEP_S, replicas=REPLICAS).turns <= 1


def test_zero_replicas_come_once_and_wake_with_the_first_request() -> None:
    """Scale to zero: none after the idle phase's cooldown, one at the first request; requests get lost meanwhile."""
    course = driven(merged(PROMETHEUS, {"minReplicas": 0, "wake": merged(GATEWAY, {}) | {"target": 8}}))
    phases = [phase for phase, _ in profile()]
    idle, back = phases.index("idle") * STEP_S // 5, phases.index("return") * STEP_S // 5
    assert 0 not in course.replicas[:idle]
    assert course.replicas[back - 1] == 0
    assert course.replicas[back + 6] == 1
    assert course.replicas[-1] == 1
    assert course.turns == 2
    start = ARRIVALS[back * 5 // STEP_S :][: (REPLICAS.cold_start_s + 30) // STEP_S]
    assert 0 < course.refused <= sum(start) * STEP_S


@pytest.mark.parametrize("cold_start_s", [120, 900])
def test_other_cold_starts_bring_their_own_windows(cold_start_s: int) -> None:
    """The windows fit the cold start that is said: quick or slow, one turn, at most double of what is needed."""
    scaling = rendered(merged(PROMETHEUS, {"coldStartSeconds": cold_start_s}))
    course = run(scaling, ARRIVALS, step_s=STEP_S, replicas=Replicas(cold_start_s=cold_start_s))
    assert course.turns == 1
    assert max(course.replicas) <= 2 * NEEDED

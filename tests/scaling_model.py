"""Stands in for KEDA, the HPA controller and replicas under load: what a rendered scaling object would do.

Knows no chart: it reads a ScaledObject or a HorizontalPodAutoscaler. The arithmetic is the controller's own: wishes
from metrics with a tolerance of 0.1, the lowest wish of the up-window, the highest of the down-window, then the
policies. Served requests are a fluid: a replica works on `slots` requests at a time, each for `service_s`. Invariant:
no request is lost uncounted; time only comes from the arguments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 0.1
SYNC_S = 15
SCRAPE_S = 10
TICK_S = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One metric that is scaled on."""

    name: str
    value: float
    kind: str
    """AverageValue: the metric is a total; Value: it is one replica's mean."""
    activation: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaler:
    """What a scaling object says."""

    least: int
    most: int
    targets: tuple[Target, ...]
    up: Mapping[str, Any]
    down: Mapping[str, Any]
    cooldown_s: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Replicas:
    """What one replica can do."""

    slots: int = 64
    service_s: float = 6.4
    queue: int = 256
    cold_start_s: int = 300


@dataclass(kw_only=True, slots=True)
class Course:
    """What happened, tick by tick."""

    replicas: list[int] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    refused: float = 0.0

    @property
    def turns(self) -> int:
        """How often the number of replicas changed its direction."""
        steps = [after - before for before, after in itertools.pairwise(self.replicas) if before != after]
        return sum((before > 0) != (after > 0) for before, after in itertools.pairwise(steps))


def scaler(item: Mapping[str, Any]) -> Scaler:
    """What a rendered ScaledObject or HorizontalPodAutoscaler says."""
    spec = item["spec"]
    if item["kind"] == "ScaledObject":
        behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        return Scaler(
            least=spec["minReplicaCount"], most=spec["maxReplicaCount"], up=behavior["scaleUp"],
            down=behavior["scaleDown"], cooldown_s=spec["cooldownPeriod"],
            targets=tuple(_trigger(trigger) for trigger in spec["triggers"]),
        )  # fmt: skip
    return Scaler(
        least=spec["minReplicas"], most=spec["maxReplicas"], up=spec["behavior"]["scaleUp"],
        down=spec["behavior"]["scaleDown"], targets=tuple(_metric(metric) for metric in spec["metrics"]),
    )  # fmt: skip


def run(scaler: Scaler, arrivals: Sequence[float], *, step_s: int, replicas: Replicas, delay_s: int = 0) -> Course:
    """Drive a scaler with arrivals per second, each for `step_s`; metrics are seen `delay_s` late."""
    course = Course()
    controller = _Controller(scaler)
    ready_at = [0] * max(scaler.least, 1)
    inside = 0.0
    seen: list[dict[str, float]] = []
    last_active = 0
    for now in range(0, len(arrivals) * step_s, TICK_S):
        rate = arrivals[now // step_s]
        ready = sum(moment <= now for moment in ready_at)
        running = min(inside, ready * replicas.slots)
        inside += (rate - running / replicas.service_s) * TICK_S
        room = ready * (replicas.slots + replicas.queue)
        course.refused += max(inside - room, 0.0)
        inside = max(min(inside, room), 0.0)
        running = min(inside, ready * replicas.slots)
        if now % SCRAPE_S == 0:
            # Requests are whole, though their flow here is not.
            seen.append({"queue-depth": round(inside - running), "busy": round(running), "wake": rate})
        metrics = seen[max(len(seen) - 1 - delay_s // SCRAPE_S, 0)]
        if now % SYNC_S == 0:
            if any(metrics[target.name] > target.activation for target in scaler.targets):
                last_active = now
            count = len(ready_at)
            if count == 0:
                wanted = int(last_active == now)
            elif scaler.least == 0 and now - last_active > scaler.cooldown_s:
                wanted = 0
            else:
                wanted = controller.decide(now, count, ready, metrics)
            ready_at += [now + replicas.cold_start_s] * (wanted - count)
            # Those that are not ready, then the youngest, go first.
            ready_at = sorted(ready_at)[:wanted]
        course.replicas.append(len(ready_at))
        course.waiting.append(inside - running)
    return course


class _Controller:
    """The horizontal pod autoscaler's memory and arithmetic."""

    def __init__(self, scaler: Scaler) -> None:
        self._scaler = scaler
        self._wishes: list[tuple[int, int]] = []
        self._changes: list[tuple[int, int]] = []

    def decide(self, now: int, count: int, ready: int, metrics: Mapping[str, float]) -> int:
        scaler = self._scaler
        if not self._wishes:
            self._wishes.append((now, count))
        wish = max(_wish(target, metrics[target.name], count, ready) for target in scaler.targets)
        wish = min(max(wish, scaler.least, 1), scaler.most)
        self._wishes.append((now, wish))
        lowest = min(self._within(now, scaler.up["stabilizationWindowSeconds"]))
        highest = max(self._within(now, scaler.down["stabilizationWindowSeconds"]))
        wanted = lowest if count < lowest else highest if count > highest else count
        if wanted > count:
            wanted = min(wanted, max(count, *(self._most(now, count, policy) for policy in scaler.up["policies"])))
        elif wanted < count:
            wanted = max(wanted, min(self._fewest(now, count, policy) for policy in scaler.down["policies"]))
            wanted = min(wanted, count)
        if wanted != count:
            self._changes.append((now, wanted - count))
        return wanted

    def _within(self, now: int, window_s: int) -> list[int]:
        return [wish for moment, wish in self._wishes if moment >= now - window_s]

    def _start(self, now: int, count: int, period_s: int) -> int:
        return count - sum(change for moment, change in self._changes if moment > now - period_s)

    def _most(self, now: int, count: int, policy: Mapping[str, Any]) -> int:
        start = self._start(now, count, policy["periodSeconds"])
        if policy["type"] == "Pods":
            return start + int(policy["value"])
        return math.ceil(start * (1 + policy["value"] / 100))

    def _fewest(self, now: int, count: int, policy: Mapping[str, Any]) -> int:
        start = self._start(now, count, policy["periodSeconds"])
        if policy["type"] == "Pods":
            return start - int(policy["value"])
        return int(start * (1 - policy["value"] / 100))


def _wish(target: Target, total: float, count: int, ready: int) -> int:
    if target.kind == "AverageValue":
        ratio, wish = total / (target.value * count), math.ceil(total / target.value)
    else:
        ratio = total / count / target.value
        wish = math.ceil(ratio * ready)
    return count if abs(ratio - 1) <= TOLERANCE else wish


def _trigger(trigger: Mapping[str, Any]) -> Target:
    keys = {
        "prometheus": ("threshold", "activationThreshold"),
        "metrics-api": ("targetValue", "activationTargetValue"),
        "aws-cloudwatch": ("targetMetricValue", "activationTargetMetricValue"),
    }
    value, activation = keys[trigger["type"]]
    said = trigger["metadata"]
    return Target(
        name=trigger["name"], kind=trigger["metricType"], value=float(said[value]),
        activation=float(said.get(activation, 0)),
    )  # fmt: skip


def _metric(metric: Mapping[str, Any]) -> Target:
    inner = metric["pods"] if metric["type"] == "Pods" else metric["external"]
    names = {"eagle3_queue_depth": "queue-depth", "eagle3_running": "busy"}
    return Target(
        name=names[inner["metric"]["name"]], kind=inner["target"]["type"], value=float(inner["target"]["averageValue"])
    )

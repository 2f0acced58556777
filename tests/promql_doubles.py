"""Reads which metrics and labels a PromQL expression asks for, and says which there are.

Parses no PromQL: every selector of the chart has braces, which is what is looked for. Invariant: a name that is neither
the runtime's nor of the named exporters is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from eagle3.metrics.catalogue import CATALOGUE

TARGET_LABELS = frozenset({"namespace", "job", "pod"})
"""Labels that Prometheus puts on what it scrapes, whatever the metric."""
EXPORTERS = {
    "kube_pod_status_unschedulable": frozenset({"namespace", "pod"}),
    "kube_deployment_spec_replicas": frozenset({"namespace", "deployment"}),
    "DCGM_FI_DEV_GPU_UTIL": frozenset({"exported_namespace", "exported_pod", "namespace", "pod"}),
}
"""Metrics of kube-state-metrics and of the DCGM exporter, with the labels that are used."""
DEAD = ("gpu_cache_usage_perc", "num_requests_swapped", "time_in_queue_requests")
"""Names that vLLM no longer has."""

_SELECTOR = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)(?:=~|!~|!=|=)"(?:[^"\\]|\\.)*"')
_BARE = re.compile(r"\beagle3_[a-z0-9_]+\b(?!\{)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Selector:
    """One metric as it is asked for."""

    name: str
    labels: frozenset[str]


def samples() -> dict[str, frozenset[str]]:
    """Every sample that there is, with its labels."""
    found = dict(EXPORTERS)
    for entry in CATALOGUE:
        labels = TARGET_LABELS | frozenset(entry.labels)
        match entry.kind:
            case "gauge":
                found[entry.prometheus] = labels
            case "counter":
                found[f"{entry.prometheus}_total"] = labels
            case "histogram":
                found[f"{entry.prometheus}_bucket"] = labels | {"le"}
                found[f"{entry.prometheus}_sum"] = labels
                found[f"{entry.prometheus}_count"] = labels
    return found


def selectors(expression: str) -> list[Selector]:
    """The metrics that an expression asks for."""
    return [
        Selector(name=name, labels=frozenset(_MATCHER.findall(labels)))
        for name, labels in _SELECTOR.findall(expression)
    ]


def unknown(expression: str) -> list[str]:
    """Metrics and labels of an expression that there are not; a metric of the runtime without braces is one too."""
    there = samples()
    found = [f"{name} without braces" for name in _BARE.findall(_without_strings(expression))]
    for selector in selectors(expression):
        if selector.name not in there:
            found.append(selector.name)
        else:
            found += [f"{selector.name}: {label}" for label in sorted(selector.labels - there[selector.name])]
    for names in re.findall(r"\b(?:by|without) \(([^)]*)\)", expression):
        asked = {name.strip() for name in names.split(",")}
        held = [there.get(selector.name, frozenset()) for selector in selectors(expression)]
        found += [f"by ({label})" for label in sorted(asked) if not any(label in labels for labels in held)]
    return found + [name for name in DEAD if name in expression]


def _without_strings(expression: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)

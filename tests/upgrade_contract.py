"""What an upgrade of a chart must keep, taken from a rendering: names of objects and fields that cannot change.

`python tests/upgrade_contract.py > tests/charts/previous/VERSION.yaml`, before a release, records the charts as they
are; tests hold every later version against each record. Knows no version. Invariant: a record holds the values that it
was rendered from, so that values written for an old version go on working.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent)]

import yaml

from chart_doubles import Rendered, render, values_file
from chart_matrix import MATRIX

RECORDED = (
    "default",
    "values-cpu",
    "values-g5",
    "values-p4d",
    "canary",
    "leader worker set",
    "weights on a claim",
    "weights from S3",
    "hpa custom",
    "edge target group",
)


def _spec(*keys: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Reads some keys of an object's spec; a key that is absent is null, since adding it would change it."""
    return lambda item: {key: item["spec"].get(key) for key in keys}


def _service(item: Mapping[str, Any]) -> dict[str, Any]:
    spec = item["spec"]
    ports = {port["name"]: port["port"] for port in spec["ports"]}
    return {
        "type": spec["type"],
        "headless": spec.get("clusterIP") == "None",
        "selector": spec["selector"],
        "ports": ports,
    }


def _claim(item: Mapping[str, Any]) -> dict[str, Any]:
    # Everything but its size, which may grow.
    return {key: value for key, value in item["spec"].items() if key != "resources"}


# What the API server refuses to change, and what others know an object by.
FIELDS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "Deployment": _spec("selector"),
    "DaemonSet": _spec("selector"),
    "StatefulSet": _spec("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"),
    "Service": _service,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _spec("csi", "accessModes", "storageClassName", "volumeMode"),
    "ScaledObject": _spec("scaleTargetRef"),
    "HorizontalPodAutoscaler": _spec("scaleTargetRef"),
    "TargetGroupBinding": _spec("targetGroupARN", "targetType", "serviceRef"),
    "LeaderWorkerSet": _spec("networkConfig"),
    "NodePool": lambda item: {"nodeClassRef": item["spec"]["template"]["spec"]["nodeClassRef"]},
    "EC2NodeClass": _spec("role", "instanceProfile"),
    # Pod Identity associations are by name.
    "ServiceAccount": lambda item: {},
}


def contract(rendered: Rendered) -> dict[str, Any]:
    """Kind/name to the fields that an upgrade must keep; objects that may come and go are left out."""
    kept = {key: item for key, item in rendered.named().items() if item["kind"] in FIELDS}
    return {key: FIELDS[item["kind"]](item) for key, item in sorted(kept.items())}


def record() -> list[dict[str, Any]]:
    """The contract of every recorded rendering of the charts as they are."""
    made = [("eagle3", MATRIX[name]) for name in RECORDED]
    made.append(("eagle3-nodepools", values_file("values-example.yaml", chart="eagle3-nodepools")))
    return [
        {"chart": chart, "values": values, "objects": contract(render(values, chart=chart))} for chart, values in made
    ]


if __name__ == "__main__":
    sys.stdout.write("# Made by `python tests/upgrade_contract.py`; never edited afterwards.\n")
    sys.stdout.write(yaml.safe_dump(record(), sort_keys=True, width=120))

"""Stands in for an API server's validation: holds rendered objects against the schemas of their kinds.

Kubernetes' own kinds are held against its published schemas, with unknown keys refused; custom resources against those
of npm's `@kubernetes-models` packages (Node.js), or, where no package has a kind, against what is written down here.
Knows no chart. Invariant: an object of a kind that nothing knows is a finding, so none passes unseen.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate

from chart_doubles import ROOT

OLDEST, NEWEST = "1.31", kubernetes_validate.latest_version().rpartition(".")[0]
"""Kubernetes versions between which the charts are supported."""

_SCRIPT = Path(__file__).parent / "charts" / "custom_resources.mjs"
_MODELS = ROOT / "node_modules" / "@kubernetes-models"
_PACKAGES = ("gateway-api", "karpenter", "keda", "prometheus-operator")


def missing_models() -> str | None:
    """Why custom resources cannot be checked on this machine; None where they can."""
    if shutil.which("node") is None:
        return "Node.js is not installed"
    if not all((_MODELS / name).is_dir() for name in _PACKAGES):
        return "the packages @kubernetes-models are not installed; `make test` installs them with npm"
    return None


def core_findings(objects: Sequence[dict[str, Any]], version: str) -> tuple[list[str], list[dict[str, Any]]]:
    """What Kubernetes of a version finds in its own kinds, and the objects that are custom resources."""
    found: list[str] = []
    custom: list[dict[str, Any]] = []
    for item in objects:
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            custom.append(item)
        except kubernetes_validate.ValidationError as error:
            place = "/".join(str(part) for part in error.path)
            found.append(f"{_name(item)}: {place}: {error.message}")
    return found, custom


def custom_findings(objects: Sequence[dict[str, Any]]) -> list[str]:
    """What the schemas of custom resources find."""
    if not objects:
        return []
    run = subprocess.run(
        ["node", _SCRIPT], input=json.dumps(objects), capture_output=True, text=True, timeout=120, check=True
    )
    found: list[str] = []
    for item, findings in zip(objects, json.loads(run.stdout), strict=True):
        if findings is None:
            findings = _written_down(item)
        found += [f"{_name(item)}: {finding}" for finding in findings]
    return found


def _written_down(item: dict[str, Any]) -> list[str]:
    schema = _SCHEMAS.get((item["apiVersion"], item["kind"]))
    if schema is None:
        return [f"no schema is known for {item['apiVersion']} {item['kind']}"]
    validator = jsonschema.Draft202012Validator(schema)
    found = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(item["spec"])]
    if item["kind"] == "LeaderWorkerSet":
        for name in ("leaderTemplate", "workerTemplate"):
            if (template := item["spec"]["leaderWorkerTemplate"].get(name)) is not None:
                metadata = {"name": name, **template.get("metadata", {})}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
                found += core_findings([pod], NEWEST)[0]
    return found


def _name(item: dict[str, Any]) -> str:
    return f"{item['kind']}/{item['metadata']['name']}"


def _closed(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


_INTEGER, _STRING = {"type": "integer", "minimum": 0}, {"type": "string", "minLength": 1}
_PORT = {"type": ["integer", "string"]}
_SCHEMAS: dict[tuple[str, str], dict[str, Any]] = {
    # AWS Load Balancer Controller 3.
    ("elbv2.k8s.aws/v1beta1", "TargetGroupBinding"): {
        **_closed(
            ["serviceRef"],
            targetGroupARN=_STRING,
            targetGroupName=_STRING,
            targetType={"enum": ["instance", "ip"]},
            serviceRef=_closed(["name", "port"], name=_STRING, port=_PORT),
            ipAddressType={"enum": ["ipv4", "ipv6"]},
            vpcID={"type": "string", "pattern": "^vpc-[0-9a-f]{8}([0-9a-f]{9})?$"},
            multiClusterTargetGroup={"type": "boolean"},
            networking=_closed(
                ingress={
                    "type": "array",
                    "items": _closed(
                        ["from", "ports"],
                        **{
                            "from": {
                                "type": "array",
                                "items": _closed(
                                    ipBlock=_closed(["cidr"], cidr=_STRING),
                                    securityGroup=_closed(["groupID"], groupID=_STRING),
                                ),
                            },
                            "ports": {
                                "type": "array",
                                "items": _closed(protocol={"enum": ["TCP", "UDP"]}, port=_PORT),
                            },
                        },
                    ),
                }
            ),
        ),
        "oneOf": [{"required": ["targetGroupARN"]}, {"required": ["targetGroupName"]}],
    },
    # LeaderWorkerSet 0.9.
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): _closed(
        ["leaderWorkerTemplate"],
        replicas=_INTEGER,
        startupPolicy={"enum": ["LeaderCreated", "LeaderReady"]},
        networkConfig=_closed(subdomainPolicy={"enum": ["Shared", "UniquePerReplica"]}),
        rolloutStrategy=_closed(
            type={"enum": ["RollingUpdate"]},
            rollingUpdateConfiguration=_closed(maxUnavailable=_PORT, maxSurge=_PORT, partition=_INTEGER),
        ),
        leaderWorkerTemplate=_closed(
            ["workerTemplate"],
            size={"type": "integer", "minimum": 1},
            restartPolicy={"enum": ["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]},
            leaderTemplate=_closed(["spec"], metadata={"type": "object"}, spec={"type": "object"}),
            workerTemplate=_closed(["spec"], metadata={"type": "object"}, spec={"type": "object"}),
            subGroupPolicy=_closed(subGroupSize=_INTEGER),
        ),
    ),
}

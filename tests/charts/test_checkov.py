"""checkov finds nothing in any rendering that is not excepted beside the object, with a reason."""

from __future__ import annotations

import json
import subprocess

import pytest

from chart_doubles import ROOT, render
from chart_matrix import MATRIX

CHECKOV = ROOT / ".venv-checkov" / "bin" / "checkov"
SKIP = "checkov.io/skip"
# Renderings in which every exception stands, looked at without exceptions too.
BARE = ("default", "values-g5", "canary")
# The worker of a group answers no requests, so it has no probes.
PROBELESS = {(check, "Pod/workertemplate") for check in ("CKV_K8S_8", "CKV_K8S_9")}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHECKOV.exists(), reason="checkov is not installed; `make test` makes its environment"),
]


def with_pods_of_groups(objects):
    """The objects, and the pods of a LeaderWorkerSet, a kind that checkov does not know, as pods of their own."""
    pods = []
    for item in objects:
        if item["kind"] == "LeaderWorkerSet":
            for name in ("leaderTemplate", "workerTemplate"):
                template = item["spec"]["leaderWorkerTemplate"][name]
                metadata = {"name": name.lower(), "namespace": "eagle3", "labels": template["metadata"]["labels"]}
                pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    return [*objects, *pods]


def exceptions(objects):
    """Kind/name to the checks excepted there, with their reasons."""
    found = {}
    for item in objects:
        for key, value in item["metadata"].get("annotations", {}).items():
            if key.startswith(SKIP):
                check, _, reason = value.partition("=")
                found.setdefault(f"{item['kind']}/{item['metadata']['name']}", {})[check] = reason
    return found


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """Failed checks by rendering: (check, kind/name, name of the check). "bare …" is without exceptions."""
    folder = tmp_path_factory.mktemp("manifests")
    renderings = {name: with_pods_of_groups(render(values).all()) for name, values in MATRIX.items()}
    for name in BARE:
        bare = renderings[f"bare {name}"] = render(MATRIX[name]).all()
        for item in bare:
            item["metadata"].pop("annotations", None)
    for name, objects in renderings.items():
        document = {"apiVersion": "v1", "kind": "List", "items": objects}
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    command = [CHECKOV, "-d", folder, "--framework", "kubernetes", "--skip-download", "--compact", "-o", "json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    report = json.loads(run.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] > 1000
    found = {name: set() for name in renderings}
    for check in report["results"]["failed_checks"]:
        kind, _, name = check["resource"].split(".", 2)
        rendering = check["file_path"].strip("/").removesuffix(".json")
        found[rendering].add((check["check_id"], f"{kind}/{name}", check["check_name"]))
    return found


@pytest.mark.parametrize("name", MATRIX)
def test_nothing_fails(findings, name):
    """No check fails in any combination; pods of a LeaderWorkerSet have the exceptions of the Deployment's."""
    accepted = exceptions(render().all())["Deployment/eagle3"]
    left = {
        found
        for found in findings[name]
        if not (found[1] in ("Pod/leadertemplate", "Pod/workertemplate") and found[0] in accepted)
    }
    assert {found for found in left if found[:2] not in PROBELESS} == set()


def test_every_exception_has_a_reason_and_is_needed(findings):
    """An exception says why in words, and without it the check would fail."""
    for name in BARE:
        failed = {(check, place) for check, place, _ in findings[f"bare {name}"]}
        for place, checks in exceptions(render(MATRIX[name]).all()).items():
            for check, reason in checks.items():
                assert len(reason.split()) >= 3, (place, check)
                assert (check, place) in failed, (place, check)


def test_bare_renderings_show_every_exception():
    """Each check that is excepted anywhere is excepted in one of the renderings looked at without exceptions."""
    everywhere = [exceptions(render(values).all()) for values in MATRIX.values()]
    shown = {check for name in BARE for checks in exceptions(render(MATRIX[name]).all()).values() for check in checks}
    assert {check for found in everywhere for checks in found.values() for check in checks} == shown

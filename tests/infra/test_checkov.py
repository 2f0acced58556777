"""checkov finds nothing in any stack that is not excepted beside the resource, with a reason."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from stack_doubles import VARIANTS, text, variant

CHECKOV = Path(__file__).parents[2] / ".venv-checkov" / "bin" / "checkov"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHECKOV.exists(), reason="checkov is not installed; `make test` makes its environment"),
]


def exceptions(stack):
    """Logical id, unique in a stack, to check to reason."""
    return {resource.id: resource["//"]["checkov"] for resource in stack.every() if "checkov" in resource.get("//", {})}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """Failed checks of every variant: variant to (check, logical id, name of the check)."""
    folder = tmp_path_factory.mktemp("stacks")
    for name in VARIANTS:
        (folder / f"{name}.tf.json").write_text(
            json.dumps(json.loads(text(*VARIANTS[name])), indent=1), encoding="utf-8"
        )
    command = [CHECKOV, "-d", folder, "--framework", "terraform_json", "--skip-download", "--compact", "-o", "json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    report = json.loads(run.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] > 100
    found = {name: set() for name in VARIANTS}
    for check in report["results"]["failed_checks"]:
        name = check["file_path"].strip("/").removesuffix(".tf.json")
        found[name].add((check["check_id"], check["resource"].rpartition(".")[2], check["check_name"]))
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_fails(findings, name):
    """Every failed check of a stack has an exception with a reason."""
    excepted = exceptions(variant(name))
    left = [found for found in sorted(findings[name]) if found[0] not in excepted.get(found[1], {})]
    assert left == []


@pytest.mark.parametrize("name", VARIANTS)
def test_every_exception_is_needed(findings, name):
    """An exception that no longer excepts anything is gone from the code."""
    failed = {(check, id) for check, id, _ in findings[name]}
    unused = [
        (check, id) for id, checks in exceptions(variant(name)).items() for check in checks if (check, id) not in failed
    ]
    assert unused == []

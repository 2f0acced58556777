"""`eagle3 rehearse`: the stacks on the real Terraform, deployed by cdktf itself, against a local AWS."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stack_doubles import VARIANTS

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed"),
    pytest.mark.skipif(
        not (ROOT / "node_modules" / ".bin" / "cdktf").exists(), reason="no cdktf: `npm ci` needs Node.js (`make test`)"
    ),
]


def rehearse(stack, *arguments):
    command = [sys.executable, "-m", "eagle3.cli.main", "rehearse", stack, "--provider", "stand-in", "--json"]
    return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)


@pytest.mark.parametrize(
    ("stack", "overrides", "least"),
    [("small", "", 60), ("bootstrap", "", 15), ("large", VARIANTS["large with edge"][2], 200)],
    ids=["small", "bootstrap", "large with edge"],
)
def test_stack_is_deployed_planned_again_and_destroyed(stack, overrides, least):
    """Everything is created and destroyed, a second plan changes nothing, and nothing is left in the local AWS."""
    before = {path.name for path in ROOT.iterdir()}
    done = rehearse(stack, *(["--set", overrides] if overrides else []))
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["created"] == report["destroyed"] >= least
    assert report["second_plan_changes"] == report["leftovers"] == report["changed"] == 0
    # What the local AWS lacks is told apart, and is the smaller part.
    assert report["made_in_local_aws"] >= 0.9 * report["created"]
    assert report["made_in_local_aws"] + len(report["recorded_only"]) == report["created"]
    assert {path.name for path in ROOT.iterdir()} == before

"""cdktf and cdktn synthesize the same resources from the same app."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack_doubles import VARIANTS, text

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys
from datetime import date
from infra.app import build_app
from infra.settings.load import load_settings
for name, (stack, environment, overrides) in json.loads(sys.argv[2]).items():
    settings = load_settings(environment, overrides)
    build_app(settings, today=date(2026, 12, 1), stacks=[stack], outdir=f"{sys.argv[1]}/{name}").synth()
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """What CDK Terrain makes of every variant."""
    folder = tmp_path_factory.mktemp("cdktn")
    environ = {**os.environ, "EAGLE3KIT_FRAMEWORK": "cdktn", "PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"}
    command = [sys.executable, "-c", PROGRAM, str(folder), json.dumps(VARIANTS)]
    subprocess.run(command, env=environ, check=True, timeout=200, cwd=folder)
    return folder


def comparable(document):
    """Resources, lookups and outputs; the comments differ by the framework's version."""

    def clean(value):
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items() if key != "//"}
        if isinstance(value, list):
            return [clean(item) for item in value]
        return value

    return {key: clean(document[key]) for key in ("resource", "data", "output", "provider") if key in document}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_same_resources(other, name):
    """Every resource, lookup, output and provider block is the same under both frameworks."""
    stack = VARIANTS[name][0]
    made = json.loads((other / name / "stacks" / stack / "cdk.tf.json").read_text(encoding="utf-8"))
    assert made["terraform"]["required_providers"]["aws"]["source"].endswith("aws")
    assert comparable(made) == comparable(json.loads(text(*VARIANTS[name])))

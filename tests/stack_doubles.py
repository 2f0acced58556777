"""The product's own stacks, synthesized once a test run for each set of settings."""

from __future__ import annotations

import json
import tempfile
from datetime import date
from functools import cache
from pathlib import Path

from infra.app import STACKS, build_app
from infra.settings.load import load_settings
from infra_doubles import Synthesized

TODAY = date(2026, 12, 1)

# Settings that switch on what is off by default, so that tests of whole stacks see every construct.
VARIANTS = {
    "bootstrap": ("bootstrap", "dev", ""),
    "small": ("small", "dev", ""),
    "medium": ("medium", "dev", ""),
    "large": ("large", "dev", ""),
}


@cache
def text(name: str, environment: str = "dev", overrides: str = "") -> str:
    """The Terraform JSON of a stack as text."""
    settings = load_settings(environment, overrides)
    with tempfile.TemporaryDirectory() as folder:
        build_app(settings, today=TODAY, stacks=[name], outdir=folder).synth()
        return (Path(folder) / "stacks" / name / "cdk.tf.json").read_text(encoding="utf-8")


def stack(name: str, environment: str = "dev", overrides: str = "") -> Synthesized:
    """One stack of the product."""
    assert name in STACKS
    return Synthesized(document=json.loads(text(name, environment, overrides)))


def variant(name: str) -> Synthesized:
    """One of VARIANTS."""
    return stack(*VARIANTS[name])

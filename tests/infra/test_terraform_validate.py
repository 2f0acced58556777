"""The real Terraform takes every variant of every stack: schemas, references, no cycle."""

from __future__ import annotations

import json

import pytest

from infra.framework import PROVIDER_VERSION
from stack_doubles import VARIANTS, text
from standin_doubles import TERRAFORM, workplace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TERRAFORM is None, reason="terraform is not installed"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working folder with the stand-in provider; validation asks no AWS."""
    return workplace(tmp_path_factory.mktemp("validate"), "http://127.0.0.1:9")


@pytest.mark.parametrize("name", VARIANTS)
def test_variant_is_valid(place, name):
    """Terraform finds nothing to say against the synthesized text, and can order its resources."""
    document = json.loads(text(*VARIANTS[name]))
    assert document["terraform"]["required_providers"]["aws"]["version"] == PROVIDER_VERSION
    version = next(place.mirror.glob("registry.terraform.io/hashicorp/aws/*")).name
    document["terraform"]["required_providers"]["aws"]["version"] = version
    del document["terraform"]["backend"]
    (place.folder / "main.tf.json").write_text(json.dumps(document), encoding="utf-8")
    place.run("init", "-upgrade")
    assert "The configuration is valid" in place.run("validate")
    assert "digraph" in place.run("graph")

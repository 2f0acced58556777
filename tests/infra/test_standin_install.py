"""The stand-in provider is laid out as Terraform's filesystem mirror wants it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from eagle3.errors import ConfigError
from infra.rehearsal.provider import install as module
from infra.rehearsal.provider.bindings import installed
from infra.rehearsal.provider.install import cli_configuration, install, target


@pytest.mark.parametrize("framework", ["cdktf", "cdktn"])
def test_mirror_holds_the_version_of_the_bindings(tmp_path, framework):
    """The executable lies under the version that the bindings were made for, and runs with the Python given."""
    version = installed(framework, tmp_path / "cache").provider_version
    script = install(tmp_path, Path("/some/venv/bin/python"), framework)
    place = f"registry.terraform.io/hashicorp/aws/{version}/{target()}/terraform-provider-aws_v{version}"
    assert script == tmp_path / place
    assert script.stat().st_mode & stat.S_IXUSR
    text = script.read_text()
    assert "exec /some/venv/bin/python -P -m infra.rehearsal.provider" in text
    assert f"EAGLE3KIT_STANDIN_FRAMEWORK={framework}" in text


def test_paths_with_blanks_are_quoted(tmp_path):
    """A folder whose name has a blank or a quote is a folder like any other."""
    folder = tmp_path / "a b'c"
    assert """'"'"'""" in install(folder, Path("/bin/python")).read_text()
    assert str(folder) in cli_configuration(folder)


def test_configuration_asks_no_registry(tmp_path):
    """With the configuration, Terraform takes hashicorp/aws from the mirror alone."""
    text = cli_configuration(tmp_path)
    assert text.count('"registry.terraform.io/hashicorp/aws"') == 2
    assert "exclude" in text.split("direct")[1]


def test_machine_without_a_provider_is_refused(monkeypatch):
    """A machine that Terraform has no name for here is refused with what is allowed."""
    monkeypatch.setattr(module.platform, "machine", lambda: "riscv64")
    with pytest.raises(ConfigError, match="x86-64 or ARM"):
        target()

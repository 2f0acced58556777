"""Buildspecs of CodeBuild: one shell script, as the YAML that a project holds.

Knows no script. Everything that differs between stacks comes in the projects' environment variables, so the same
settings give the same text. Invariants: the script runs in a shell of its own, which stops at its first error; the
text holds none of the signs that Terraform would replace.
"""

from __future__ import annotations

import yaml

from infra.settings.components import ComponentSettings


def buildspec(script: str) -> str:
    """The buildspec that runs a bash script."""
    assert "${" not in script, "Terraform would replace ${…}"
    assert "%{" not in script, "Terraform would replace %{…}"
    # In a shell of its own: CodeBuild's must not meet `set -u` or `exit`.
    command = f"(\n{script.strip()}\n)\n"
    spec = {"version": 0.2, "env": {"shell": "bash"}, "phases": {"build": {"commands": [command]}}}
    return yaml.dump(spec, Dumper=_Dumper, sort_keys=False, width=10_000)


def helm_file(settings: ComponentSettings) -> str:
    """Helm's archive in the artifact bucket, below `tools/`."""
    return f"helm-{settings.tools.helm.version}.tar.gz"


def kubectl_file(settings: ComponentSettings) -> str:
    """kubectl in the artifact bucket, below `tools/`."""
    return f"kubectl-{settings.tools.kubectl.version}"


class _Dumper(yaml.SafeDumper):
    """Writes scripts as readable blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)

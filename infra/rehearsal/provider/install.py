"""Puts the stand-in provider where Terraform finds it: a filesystem mirror, and a CLI configuration that names it.

Knows Terraform's layout of mirrors. The executable is a short script that starts this package with a given Python.
Invariant: the version is that of the installed bindings, so a configuration synthesized with them finds its provider.
"""

from __future__ import annotations

import json
import platform
import shlex
from pathlib import Path

from eagle3.errors import ConfigError
from infra.rehearsal.provider.bindings import installed

_HOST = "registry.terraform.io"
_SOURCE = "hashicorp/aws"
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_SCHEMAS = ".schemas"
_ROOT = Path(__file__).resolve().parents[3]


def install(folder: Path, python: Path, framework: str = "cdktf") -> Path:
    """Lay a mirror out in a folder, to be run by a Python, and return the path of the provider's executable.

    Schemas that the provider reads are kept in the folder too.
    """
    folder = folder.absolute()
    version = installed(framework, folder / _SCHEMAS).provider_version
    place = folder / _HOST / _SOURCE / version / target()
    place.mkdir(parents=True, exist_ok=True)
    script = place / f"terraform-provider-aws_v{version}"
    script.write_text(_script(folder, python, framework), encoding="utf-8")
    script.chmod(0o755)
    return script


def cli_configuration(mirror: Path) -> str:
    """The CLI configuration under which Terraform takes hashicorp/aws from a mirror and asks no registry for it."""
    place, source = json.dumps(str(mirror)), json.dumps(f"{_HOST}/{_SOURCE}")
    return (
        "disable_checkpoint = true\n"
        "provider_installation {\n"
        f"  filesystem_mirror {{\n    path    = {place}\n    include = [{source}]\n  }}\n"
        f"  direct {{\n    exclude = [{source}]\n  }}\n"
        "}\n"
    )


def target() -> str:
    """Operating system and architecture as Terraform names them, such as "linux_amd64"."""
    machine, system = platform.machine().lower(), platform.system().lower()
    if machine not in _ARCHITECTURES or system not in ("linux", "darwin"):
        raise ConfigError(f"the stand-in provider runs on Linux and macOS, x86-64 or ARM; got {system} {machine}")
    return f"{system}_{_ARCHITECTURES[machine]}"


def _script(folder: Path, python: Path, framework: str) -> str:
    # The interpreter is not resolved: the path of a virtual environment's own link is what makes it that environment.
    lines = {
        "PYTHONPATH": f"{_ROOT}:{_ROOT / 'runtime'}",
        "EAGLE3KIT_STANDIN_FRAMEWORK": framework,
        "EAGLE3KIT_STANDIN_CACHE": str(folder / _SCHEMAS),
    }
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in lines.items())
    return f"#!/bin/sh\n{exports}exec {shlex.quote(str(python))} -P -m infra.rehearsal.provider\n"

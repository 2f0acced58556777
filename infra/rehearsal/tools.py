"""The programs that a rehearsal needs, found and checked before anything starts.

Knows versions and places, runs nothing but `--version`. Invariant: each missing program is one error with its remedy.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eagle3.errors import ConfigError

# The first release that can lock state with a file in the bucket.
MIN_TERRAFORM = (1, 10)
MIN_NODE = (20, 9)
# Import name to how it is called where packages come from.
_PACKAGES = {"boto3": "boto3", "moto": "moto[server]", "flask": "moto[server]", "tf": "tf", "cdktf": "cdktf"}
_VERSION_S = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Tools:
    """Programs, with absolute paths."""

    terraform: Path
    terraform_version: str
    """Such as "1.11.4"."""
    platform: str
    """As Terraform calls it, such as "linux_amd64"."""
    cdktf: Path


def find_tools(project: Path, environ: Mapping[str, str]) -> Tools:
    """Everything that a rehearsal runs; ConfigError names the first thing that is missing and how to get it."""
    _check_packages()
    _check_app(project)
    cdktf = project / "node_modules" / ".bin" / "cdktf"
    if not cdktf.exists():
        raise ConfigError(f"no cdktf command at {cdktf}; run `npm ci` in {project}")
    path = environ.get("PATH", "")
    node = _which("node", path, f"install Node.js {_text(MIN_NODE)} or newer")
    _at_least("Node.js", _output(node, "--version"), MIN_NODE)
    terraform = _which("terraform", path, f"install Terraform {_text(MIN_TERRAFORM)} or newer")
    said = _output(terraform, "version", "-json")
    try:
        facts = json.loads(said)
        version, platform = str(facts["terraform_version"]), str(facts["platform"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{terraform} is no Terraform: `terraform version -json` says {said[:80]!r}") from error
    _at_least("Terraform", version, MIN_TERRAFORM)
    return Tools(terraform=terraform, terraform_version=version, platform=platform, cdktf=cdktf)


def _check_packages() -> None:
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise ConfigError(
                f"the Python package {package} is missing; run `make venv`, or `pip install 'eagle3-kit[infra]'`"
            )


def _check_app(project: Path) -> None:
    """The command of cdktf.json is there; the cdktf command line tells that less well."""
    file = project / "cdktf.json"
    try:
        command = shlex.split(json.loads(file.read_text(encoding="utf-8"))["app"])[0]
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; run this in a checkout of eagle3-kit") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ConfigError(f"{file} names no `app`; it holds JSON with the command that synthesizes") from error
    if "/" in command and not (project / command).exists():
        raise ConfigError(f"{file} runs {command}, which is not there; run `make venv`")


def _which(name: str, path: str, remedy: str) -> Path:
    found = shutil.which(name, path=path)
    if found is None:
        raise ConfigError(f"no {name} on the PATH; {remedy}")
    return Path(found).absolute()


def _output(program: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603, a program of the PATH asked for its version
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_S,
            check=False,
            env={"PATH": str(program.parent), "CHECKPOINT_DISABLE": "1"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{program} does not run: {error}") from error
    return done.stdout.decode("utf-8", "replace").strip()


def _at_least(name: str, said: str, least: tuple[int, int]) -> None:
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < least:
        raise ConfigError(f"{name} must be {_text(least)} or newer; got {said[:40] or 'no version'}")


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))

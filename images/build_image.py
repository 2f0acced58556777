"""Builds an image with docker or buildah, whichever is there: `python -m images.build_image cpu`.

The tag follows from pyproject.toml and the Dockerfile (0.1.0-cpu, 0.1.0-cuda13.0), as the stacks and the chart name it.
pip's own settings go along; folders of this machine among them only with buildah, which can mount them in a build.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from images.pip_settings import PipSettings, read_settings

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ("cpu", "cuda")
_TORCH = re.compile(r"^ARG TORCH=torch==[\d.]+\+(?P<build>cpu|cu(?P<major>\d+)(?P<minor>\d))$", re.MULTILINE)
_BAD_INPUT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """One image to build."""

    image: str
    """"cpu" or "cuda"."""
    repository: str
    """Name before the tag."""
    arguments: dict[str, str]
    """Build arguments that the user chose."""


def release() -> str:
    """Version of the package, which is the image's too."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return version


def tag(image: str) -> str:
    """Tag of the image: the release, and the CUDA version that torch is built for."""
    found = _TORCH.search((ROOT / "images" / image / "Dockerfile").read_text(encoding="utf-8"))
    assert found is not None, f"images/{image}/Dockerfile names no build of torch"
    return f"{release()}-" + ("cpu" if found["build"] == "cpu" else f"cuda{found['major']}.{found['minor']}")


def build_command(build: Build, *, tool: str, pip: PipSettings, revision: str) -> list[str]:
    """The command line of docker or buildah."""
    arguments = {"VERSION": release(), "REVISION": revision}
    arguments |= pip.arguments if tool == "buildah" else pip.public
    arguments |= build.arguments
    # Docker's format: the other one has no health check.
    command = [tool, "build"] if tool == "docker" else [tool, "build", "--format", "docker"]
    if tool == "buildah":
        command += [word for folder, place in pip.mounts.items() for word in ("--volume", f"{folder}:{place}:ro")]
    command += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    command += ["--tag", f"{build.repository}:{tag(build.image)}"]
    return [*command, "--file", str(ROOT / "images" / build.image / "Dockerfile"), str(ROOT)]


def shown(command: Sequence[str]) -> str:
    """The command for people to read and copy, without the user and password of an index."""
    return re.sub(r"//[^/@\s]+@", "//***@", shlex.join(command))


def find_tool() -> str | None:
    """Docker where its engine answers, else buildah; None where there is neither."""
    if shutil.which("docker") and _run("docker", "version", "--format", "{{.Server.Version}}").returncode == 0:
        return "docker"
    return "buildah" if shutil.which("buildah") else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Build one image; returns the tool's exit code."""
    parser = argparse.ArgumentParser(prog="build_image.py", description="Build an image with docker or buildah.")
    parser.add_argument("image", choices=IMAGES)
    parser.add_argument("--repository", default="eagle3", metavar="NAME", help="before the tag (default: eagle3)")
    parser.add_argument("--base-image", metavar="IMAGE", help="with Python 3.11 (default: the one in the Dockerfile)")
    parser.add_argument("--torch-index-url", metavar="URL", help="where torch comes from (default: PyTorch's own)")
    parser.add_argument("--print", action="store_true", dest="is_dry", help="show the command, run nothing")
    asked = parser.parse_args(arguments)
    chosen = {"BASE_IMAGE": asked.base_image, "TORCH_INDEX_URL": asked.torch_index_url}
    given = {name: value for name, value in chosen.items() if value}
    build = Build(image=asked.image, repository=asked.repository, arguments=given)
    tool = find_tool()
    if tool is None:
        print("no docker engine and no buildah; install one of them (Debian: buildah)", file=sys.stderr)
        return _BAD_INPUT
    command = build_command(build, tool=tool, pip=_pip_settings(), revision=_revision())
    print(shown(command), file=sys.stdout if asked.is_dry else sys.stderr)
    return 0 if asked.is_dry else subprocess.run(command, check=False).returncode  # noqa: S603 - no shell, no input


def _pip_settings() -> PipSettings:
    return read_settings(_run(sys.executable, "-m", "pip", "config", "list").stdout.splitlines())


def _revision() -> str:
    asked = _run("git", "-C", str(ROOT), "rev-parse", "HEAD")
    return asked.stdout.strip() if asked.returncode == 0 else "unknown"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed commands


if __name__ == "__main__":
    sys.exit(main())
